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

// One learnable tensor of a module: declared with its shape and distribution, given storage by
// place(). `tensor` is undefined before that.
struct Parameter {
  Shape shape;
  Init init;
  Tensor tensor;
  bool fixed = false;  // never trained: its module says so, or place() was told so
  // If set, it gives the value, for a model that computes in `compute`, and the parameter is never
  // trained and is not among those that place() returns.
  std::function<Tensor(DType compute, Device device)> source{};
  DType compute = DType::f32;  // that place() was told
};

// State that is not learned, declared and stored like a parameter.
struct Buffer {
  Shape shape;
  Init init;
  Tensor tensor;
};

// The activations that a forward keeps for backward; others are computed again (core/autograd.h,
// recompute()). Results are the same. It saves memory and costs up to one more forward.
enum class Recompute {
  none,  // every activation
  sqrt,  // the inputs of about sqrt(n) of its n blocks; of nested ones, for two more forwards
  all    // the input of every block
};

namespace detail {

// Whether adapters beside fixed weights (text/lora.h) add to what these compute.
enum class Adapters { count, left_out };

class JoinedBatch;

}  // namespace detail

class Module;

// The purpose of one forward pass. It is explicit, so that a pass can be repeated with the same
// result.
struct Pass {
  using Adapters = detail::Adapters;
  enum class Mode {
    train,
    eval,
    vary  // as eval, but with dropout: another answer for another key
  } mode = Mode::train;
  // The key of dropout: its masks depend on the sample, not on the micro-batch.
  uint64_t seed = 0;
  int64_t epoch = 0;
  Tensor samples{};  // i32 [N]: the dataset index of each row
  Recompute recompute = Recompute::none;
  // At most so many elements of a sample's first dimension, such as tokens of a row, are computed
  // at a time, where a model can (text/language_model.h); 0: all.
  int64_t piece = 0;
  // Where x begins in that dimension if it is such a piece.
  int64_t begin = 0;
  Adapters adapters = Adapters::count;
  // If set, x is a part of this batch, whose statistics BatchNorm takes (kernels/joined_batch.h).
  detail::JoinedBatch* batch = nullptr;
  // If set, this is called for every module after it has run, and for a module's parts before it.
  std::function<void(const Module&, const Shape& x, const Shape& y)> observe{};

  bool training() const { return mode == Mode::train; }
  bool drops_out() const { return mode != Mode::eval; }
  static Pass eval() { return {.mode = Mode::eval}; }
};

// A part of a network with parameters, such as a block of a transformer, which also wants to know
// positions. Modules are declared without storage; place() gives them some on a device.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Updates state that is constant within a window, such as spectral norm's u and v by one power
  // iteration. Called once before the first micro-batch of each optimizer step. The state must lie
  // in module buffers, so that taking a window back takes this back, too. Visits this module and
  // its children. place() also calls it, `settling_steps` times.
  void begin_window() const;
  // PyTorch's spectral norm begins with as many power iterations.
  static constexpr int settling_steps = 15;

  // A line for people to read: "linear 784 -> 512 + relu".
  virtual std::string describe() const = 0;
  // The number of places that this layer takes in PyTorch's nn.Sequential numbering: 2 if it has a
  // fused activation, so that the names of the parameters agree; 0 for dropout.
  virtual int places() const { return 1; }
  // True if a training pass differs from epoch to epoch, as dropout's does. By default true if a
  // child's does.
  virtual bool is_random() const;

  using ParameterVisitor = std::function<void(const std::string& name, Parameter&)>;
  using BufferVisitor = std::function<void(const std::string& name, Buffer&)>;
  // Calls the visitor with each parameter (or buffer) of this module and its children, in order
  // of declaration, by its full name.
  void visit_parameters(const ParameterVisitor& visit, const std::string& prefix = "");
  void visit_buffers(const BufferVisitor& visit, const std::string& prefix = "");
  // The same for the modules within this one, by the names under which they were declared.
  using ModuleVisitor = std::function<void(const std::string& name, Module&)>;
  void visit_modules(const ModuleVisitor& visit, const std::string& prefix = "");
  // Labels the memory of this module from now on by its place in the model and, unless it has
  // children, its describe(): "3 conv 3x3 16 -> 32, stride 1, padding 1", "layer1.0". place() calls
  // this.
  void label_memory(const std::string& place = "");

 protected:
  // Constructors declare their members by the names that PyTorch gives them. Throws Error for a
  // member that is declared already; place() does so for equal names.
  void declare(std::string name, Parameter& parameter) { declare_in(parameters_, name, parameter); }
  void declare(std::string name, Buffer& buffer) { declare_in(buffers_, name, buffer); }
  void declare(std::string name, Module& child) { declare_in(children_, name, child); }
  // Runs body() in the memory scope of the pass and of this module, and observed. x is the shape of
  // body()'s input. An Error of the innermost module that is placed names it.
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
  // Throws the error with the name of this module, if it is placed and the error has none.
  void name_in(const Error& error) const;

  Declared<Parameter> parameters_;
  Declared<Buffer> buffers_;
  Declared<Module> children_;
  detail::Label label_;
};

// A module that is a differentiable function of one tensor. So are whole networks.
class Layer : public Module {
 public:
  // x comes by value: a layer that is handed the last reference may write over it.
  virtual Tensor forward(Tensor x, const Pass& pass) const = 0;
  // Runs forward() as Module::run() does.
  Tensor operator()(Tensor x, const Pass& pass = {}) const {
    const Shape shape = x.shape();
    return run(shape, pass, [&] { return forward(std::move(x), pass); });
  }
};

// Returns a new model without storage, with the same layers each time.
using ModelFactory = std::function<std::unique_ptr<Layer>()>;

// Places a model that computes in `dtype` on a device, all its parameters in one arena (float32
// under a 16-bit dtype), and draws their initial values: parameter number p from the random stream
// (seed, p), so the weights do not depend on the device; buffers likewise, from streams of their
// own. Any other code that sets values must call round_copies() afterwards. Parameters of the
// layers in `freeze` are fixed (core/parameters.h), beside those that are declared so. Throws Error
// if the model is placed already, for a parameter or buffer that is declared twice or has another's
// name, for a name in `freeze` that is none, and if all would be fixed; and OutOfMemory.
Parameters place(Module& model, DType dtype, Device device, uint64_t seed,
                 detail::GradientStorage storage = detail::GradientStorage::arena,
                 const std::vector<std::string>& freeze = {});
// The name in `freeze` for everything but the head, which is the layer of the last parameters.
// Other names there are whole names, or all that comes before a dot: "layer1", "layer1.0.bn2",
// "layer1.0.bn2.weight".
inline constexpr std::string_view backbone = "backbone";

namespace detail {

// x after n blocks in a row: run(x, pass, block, ends_segment) runs one, which is the last of a
// recompute()'s segment or not. Keeps what pass.recompute says of them.
using RunBlock = std::function<Tensor(Tensor x, const Pass& pass, size_t block, bool ends_segment)>;
Tensor run_blocks(Tensor x, const Pass& pass, size_t n, const RunBlock& run);

}  // namespace detail

// Layers one after the other, numbered as PyTorch's nn.Sequential numbers them unless they have
// names of their own. A block, for Recompute, is a layer with weights together with the layers
// without weights that follow it.
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
  // The descriptions of the layers, a line each, by number or name.
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
  std::vector<size_t> blocks_;  // the first layer of each
  int next_number_ = 0;
};

}  // namespace accrue
