#include "fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>
#include <utility>

#include "sanitizer.h"

namespace simt {
namespace {

// Room for a kernel's locals. Sanitizers give every variable a red zone and every call a larger
// frame.
constexpr size_t stack_bytes = sanitized ? 256 << 10 : 64 << 10;

char* map_stack() {
  const size_t guard = sysconf(_SC_PAGESIZE);
  void* memory = mmap(nullptr, stack_bytes + guard, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  // An overflow faults instead of corrupting the neighbour.
  if (mprotect(memory, guard, PROT_NONE) != 0) throw std::bad_alloc();
  return static_cast<char*>(memory) + guard;
}

// The host's thread while a fiber runs. There is one, because work runs on one thread at a time.
struct Caller {
  boost::context::detail::fcontext_t context = nullptr;
  const void* stack = nullptr;
  size_t stack_bytes = 0;
};
Caller caller;

// A switch hands this over: where to keep the context of the side that it leaves, and the fiber
// that begins or goes on.
struct Switch {
  boost::context::detail::fcontext_t* left;
  Fiber* fiber;
};

// Keeps the context of the side that was left, and the bounds of its stack if it is the caller's.
void arrive(boost::context::detail::transfer_t from, void* fake_stack) {
  const Switch& by = *static_cast<const Switch*>(from.data);
  *by.left = from.fctx;
  if (!locals_on_heap()) return;
  const bool of_caller = by.left == &caller.context;
  finish_switch(fake_stack, of_caller ? &caller.stack : nullptr,
                of_caller ? &caller.stack_bytes : nullptr);
}

}  // namespace

// The colour moves the top of the stack: hundreds of stacks that all begin at the same offset of a
// page would compete for the same few cache sets.
Fiber::Fiber(void (*body)(Fiber&), size_t colour) : body_(body), stack_(map_stack()) {
  const size_t bytes = stack_bytes - colour % 32 * 128;
  context_ = boost::context::detail::make_fcontext(stack_ + bytes, bytes, &Fiber::enter);
}

void Fiber::resume() {
  void* fake_stack = nullptr;
  if (locals_on_heap()) start_switch(&fake_stack, stack_, stack_bytes);
  Switch by{&caller.context, this};
  arrive(boost::context::detail::jump_fcontext(context_, &by), fake_stack);
}

void Fiber::switch_to(Fiber* next) {
  void* fake_stack = nullptr;
  if (locals_on_heap())
    start_switch(&fake_stack, next ? next->stack_ : caller.stack,
                 next ? stack_bytes : caller.stack_bytes);
  Switch by{&context_, next};
  arrive(boost::context::detail::jump_fcontext(next ? next->context_ : caller.context, &by),
         fake_stack);
}

void Fiber::before_throwing() {
  if (locals_on_heap()) return;
  throwing_ = true;
  start_switch(nullptr, stack_, stack_bytes);
  finish_switch(nullptr, &caller_stack_, &caller_stack_bytes_);
}

void Fiber::after_catching() {
  if (locals_on_heap()) return;
  if (std::exchange(throwing_, false)) {
    start_switch(nullptr, caller_stack_, caller_stack_bytes_);
    finish_switch(nullptr, nullptr, nullptr);
  } else {  // a kernel's own exception
    allow(stack_, static_cast<char*>(__builtin_frame_address(0)) - stack_);
  }
}

void Fiber::enter(boost::context::detail::transfer_t from) {
  Fiber& self = *static_cast<Switch*>(from.data)->fiber;
  arrive(from, nullptr);
  self.body_(self);
}

}  // namespace simt
