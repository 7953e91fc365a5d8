#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

namespace simt {

// Runs `body` on its own stack, in turns with other fibers and with the host's thread. It uses the
// bare fcontext because boost::context::fiber does not tell AddressSanitizer of all its switches.
class Fiber {
 public:
  // `body` never returns: it calls switch_to() where it has nothing to do.
  Fiber(void (*body)(Fiber&), size_t colour);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void resume();  // from outside: runs the fiber until one switches back to the host's thread
  // From inside: runs `next` until somebody resumes this fiber; nullptr is the caller of resume().
  void switch_to(Fiber* next);

  // To call from inside, around an exception: AddressSanitizer must know the stack whose red zones
  // the exception clears. It is told of other switches only if locals are on the heap, because
  // telling it takes as long as the switch itself.
  void before_throwing();
  void after_catching();

 private:
  static void enter(boost::context::detail::transfer_t from);

  void (*body_)(Fiber&);
  boost::context::detail::fcontext_t context_;
  const void* caller_stack_ = nullptr;
  size_t caller_stack_bytes_ = 0;
  bool throwing_ = false;
  char* stack_;
};

}  // namespace simt
