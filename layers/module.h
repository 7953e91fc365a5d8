#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/memory_scope.h"
#include "core/parameters.h"
#include "layers/init.h"

namespace accrue {

// A learnable tensor of a module, declared with its shape and distribution. place() gives it
// storage; before that, `tensor` is undefined.
struct Parameter {
  Shape shape;
  Init init;
  Tensor tensor;
  bool fixed = false;  // never trained, because of its module or of place()'s `freeze`
  // If set, it provides the value for a model that computes in `compute`. The parameter is then
  // never trained, and place() does not return it.
  std::function<Tensor(DType compute, Device device)> source{};
  DType compute = DType::f32;  // the dtype that place() was called with
};

// State that is not learned, declared and stored like a parameter.
struct Buffer {
  Shape shape;
  Init init;
  Tensor tensor;
};

// The activations that a forward keeps for backward. Backward computes the others again
// (core/autograd.h, recompute()). Results are the same. This saves memory and costs up to one more
// forward.
enum class Recompute {
  none,  // every activation
  sqrt,  // the inputs of about sqrt(n) of n blocks; two more forwards if blocks are nested
  all    // the input of every block
};

namespace detail {

// Whether adapters (text/lora.h) add to the products of the fixed weights that they belong to.
enum class Adapters { count, left_out };

class JoinedBatch;

}  // namespace detail

class Module;

// The settings of one forward pass. They are explicit, so that a pass can be repeated with the same
// result.
struct Pass {
  using Adapters = detail::Adapters;
  enum class Mode {
    train,
    eval,
    vary  // as eval, but with dropout, so that each key gives another result
  } mode = Mode::train;
  // The key of dropout: its masks depend on the sample, not on the micro-batch.
  uint64_t seed = 0;
  int64_t epoch = 0;
  Tensor samples{};  // i32 [N]: the dataset index of each row
  Recompute recompute = Recompute::none;
  // The most elements of a sample's first dimension, such as tokens of a row, that a model computes
  // at a time if it can (text/language_model.h); 0: all.
  int64_t piece = 0;
  // The offset of x in that dimension if x is a piece.
  int64_t begin = 0;
  Adapters adapters = Adapters::count;
  // If set, x is a part of this batch, and BatchNorm uses the statistics of the whole batch
  // (kernels/joined_batch.h).
  detail::JoinedBatch* batch = nullptr;
  // If set, this is called for every module after it has run: first for a module's parts, then for
  // the module.
  std::function<void(const Module&, const Shape& x, const Shape& y)> observe{};

  bool training() const { return mode == Mode::train; }
  bool drops_out() const { return mode != Mode::eval; }
  static Pass eval() { return {.mode = Mode::eval}; }
};

// A part of a network with parameters. Unlike a Layer, it may take other inputs than one tensor: a
// block of a transformer also takes positions. Modules are declared without storage; place() gives
// them storage on a device.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Updates state that is constant within a window, for this module and its children. A spectral
  // norm, for example, updates u and v by one power iteration. Called once before the first
  // micro-batch of each optimizer step. The state must lie in module buffers, so that undoing a
  // window also undoes its update. place() also calls this, `settling_steps` times.
  void begin_window() const;
  // The number of power iterations with which PyTorch's spectral norm starts.
  static constexpr int settling_steps = 15;

  // A line for people, such as "linear 784 -> 512 + relu".
  virtual std::string describe() const = 0;
  // The number of places that this layer takes in PyTorch's nn.Sequential numbering, so that the
  // names of parameters agree: 2 if it has a fused activation, 0 for dropout.
  virtual int places() const { return 1; }
  // True if a training pass differs from epoch to epoch, as with dropout. By default true if a
  // child is random.
  virtual bool is_random() const;

  using ParameterVisitor = std::function<void(const std::string& name, Parameter&)>;
  using BufferVisitor = std::function<void(const std::string& name, Buffer&)>;
  // Calls the visitor with the full name of each parameter (or buffer) of this module and its
  // children, in the order of declaration.
  void visit_parameters(const ParameterVisitor& visit, const std::string& prefix = "");
  void visit_buffers(const BufferVisitor& visit, const std::string& prefix = "");
  // The same for the modules within this one, by their declared names.
  using ModuleVisitor = std::function<void(const std::string& name, Module&)>;
  void visit_modules(const ModuleVisitor& visit, const std::string& prefix = "");
  // From now on, labels the memory of this module by its place in the model and, unless it has
  // children, its describe(): "3 conv 3x3 16 -> 32, stride 1, padding 1", "layer1.0". place() calls
  // this.
  void label_memory(const std::string& place = "");

 protected:
  // Constructors declare their members by the names that PyTorch gives them. Throws Error for a
  // member that is declared already; place() does so for equal names. The members of a child
  // without a name have no prefix.
  void declare(std::string name, Parameter& parameter) { declare_in(parameters_, name, parameter); }
  void declare(std::string name, Buffer& buffer) { declare_in(buffers_, name, buffer); }
  void declare(std::string name, Module& child) { declare_in(children_, name, child); }
  // Runs body() in the memory scope of the pass and of this module, then calls pass.observe. x is
  // the shape of body()'s input. If body() throws an Error, it gets the name of the innermost
  // placed module.
  template <class Body>
  Tensor run(const Shape& x, const Pass& pass, const Body& body) const {
    const MemoryScope scope = scope_of(pass);
    Tensor y;
    try {
      y = body();
    } catch (const Error& error) {
      name_in(error);
      throw;
    }
    if (pass.observe) pass.observe(*this, x, y.shape());
    return y;
  }
  // The part of begin_window() that belongs to this module alone.
  virtual void on_begin_window() const {}

 private:
  template <class Member>
  using Declared = std::vector<std::pair<std::string, Member*>>;
  template <class Member>
  void declare_in(Declared<Member>& declared, std::string& name, Member& member) {
    check_new(name, &member);
    declared.emplace_back(std::move(name), &member);
  }
  void check_new(const std::string& name, const void* member) const;
  MemoryScope scope_of(const Pass& pass) const;
  // Rethrows the error with the name of this module if the module is placed and the error names
  // none yet.
  void name_in(const Error& error) const;

  Declared<Parameter> parameters_;
  Declared<Buffer> buffers_;
  Declared<Module> children_;
  detail::Label label_;
};

// A module that is a differentiable function of one tensor. Whole networks are layers, too.
class Layer : public Module {
 public:
  // x is passed by value: a layer that gets the last reference may write over x.
  virtual Tensor forward(Tensor x, const Pass& pass) const = 0;
  // Runs forward() as Module::run() does.
  Tensor operator()(Tensor x, const Pass& pass = {}) const {
    const Shape shape = x.shape();
    return run(shape, pass, [&] { return forward(std::move(x), pass); });
  }
};

// Returns a new model without storage, with the same layers each time.
using ModelFactory = std::function<std::unique_ptr<Layer>()>;

// Places a model that computes in `dtype` on a device, with all its parameters in one arena
// (float32 under a 16-bit dtype), and draws their initial values. The values of parameter number p
// come from the random stream (seed, p), and so do not depend on the device; buffers have other
// streams. Code that sets values later must call round_copies(). Parameters of the layers in
// `freeze` are fixed (core/parameters.h), in addition to parameters that are declared fixed.
// Throws Error if the model is placed already, for a parameter or buffer that is declared twice or
// has another's name, for a name in `freeze` that does not exist, and if all parameters would be
// fixed. Throws OutOfMemory.
Parameters place(Module& model, DType dtype, Device device, uint64_t seed,
                 detail::GradientStorage storage = detail::GradientStorage::arena,
                 const std::vector<std::string>& freeze = {});
// This name in `freeze` stands for everything except the head, which is the layer of the last
// parameters. Other names in `freeze` are whole names, or the part of a name before a dot:
// "layer1", "layer1.0.bn2", "layer1.0.bn2.weight".
inline constexpr std::string_view backbone = "backbone";

namespace detail {

// Runs n blocks in a row on x, and keeps the activations that pass.recompute selects. run(x, pass,
// block, ends_segment) runs one block; ends_segment is true if it is the last of a segment of
// recompute().
using RunBlock = std::function<Tensor(Tensor x, const Pass& pass, size_t block, bool ends_segment)>;
Tensor run_blocks(Tensor x, const Pass& pass, size_t n, const RunBlock& run);

}  // namespace detail

// Layers one after the other. They are numbered as in PyTorch's nn.Sequential unless they have
// names. A block, for Recompute, is a layer with weights together with the layers without weights
// that follow it; the first block also has those that come before.
class Sequential : public Layer {
 public:
  Sequential() = default;
  // Appends a layer and returns it.
  template <class L, class... Args>
  L& add(Args&&... args) {
    auto layer = std::make_unique<L>(std::forward<Args>(args)...);
    L& reference = *layer;
    append(std::move(layer));
    return reference;
  }
  void append(std::unique_ptr<Layer> layer);
  void append(std::string name, std::unique_ptr<Layer> layer);
  Tensor forward(Tensor x, const Pass& pass) const override;
  // One line for each layer: its number or name and its description.
  std::string describe() const override;

 protected:
  // Layers [begin, end).
  Tensor forward(Tensor x, const Pass& pass, size_t begin, size_t end) const;

 private:
  struct Place {
    std::string name;
    std::unique_ptr<Layer> layer;
  };
  std::vector<Place> layers_;
  std::vector<size_t> blocks_;     // the first layer of each
  bool last_has_weights_ = false;  // the last block
  int next_number_ = 0;
};

}  // namespace accrue
