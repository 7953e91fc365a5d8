#pragma once

#include <memory>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

namespace accrue {

namespace detail {
class Storage;
}  // namespace detail

// A call of a kernel by launch() (kernels/backend.h), with its arguments.
class KernelCall {
 public:
  template <auto Kernel, class... Args>
  static void note(std::string_view name, const Args&... args);

  // "linear_forward"
  std::string_view name() const { return name_; }
  // Calls body(arguments...) if the call is of this cpu kernel. Returns whether it is.
  template <auto Kernel, class Body>
  bool is(const Body& body) const {
    if (kernel_ != key_of<Kernel>()) return false;
    std::apply(body, *static_cast<const Arguments<Kernel>*>(arguments_));
    return true;
  }

 private:
  using Key = void (*)();
  template <class... Parameters>
  static std::tuple<std::decay_t<Parameters>...> tuple_of(void (*)(Parameters...));
  template <auto Kernel>
  using Arguments = decltype(tuple_of(Kernel));
  template <auto Kernel>
  static Key key_of() {
    return reinterpret_cast<Key>(Kernel);
  }

  KernelCall(std::string_view name, Key kernel, const void* arguments)
      : name_(name), kernel_(kernel), arguments_(arguments) {}

  std::string_view name_;
  Key kernel_;
  const void* arguments_;
};

// While alive, sees the kernels that this thread launches, in order. Storages that they may write
// to are kept alive meanwhile, so an address always belongs to the same tensor. A trace within
// another trace replaces it.
class KernelTrace {
 public:
  KernelTrace() : before_(of_this_thread) { of_this_thread = this; }
  virtual ~KernelTrace() { of_this_thread = before_; }
  KernelTrace(const KernelTrace&) = delete;
  KernelTrace& operator=(const KernelTrace&) = delete;

  // Called before the kernel, on any device.
  virtual void add(const KernelCall& call) = 0;

  // The trace of this thread; null if there is none.
  static KernelTrace* current() { return of_this_thread; }
  // Tensor calls this for each storage that it allocates.
  static void keep(const std::shared_ptr<detail::Storage>& storage) {
    if (of_this_thread) [[unlikely]]
      of_this_thread->kept_.push_back(storage);
  }

 private:
  static thread_local constinit KernelTrace* of_this_thread;

  KernelTrace* const before_;
  std::vector<std::shared_ptr<detail::Storage>> kept_;
};

template <auto Kernel, class... Args>
void KernelCall::note(std::string_view name, const Args&... args) {
  const Arguments<Kernel> arguments(args...);
  KernelTrace::current()->add(KernelCall(name, key_of<Kernel>(), &arguments));
}

}  // namespace accrue
