#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

namespace simt {

// A stack of its own on which `body` runs, in turns with the caller of resume(). The bare fcontext
// is used because boost::context::fiber makes switches that AddressSanitizer is not told of.
class Fiber {
 public:
  // `body` never returns: it calls pause() where it has nothing to do.
  Fiber(void (*body)(Fiber&), size_t colour);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void resume();  // from outside: runs the fiber until it pauses
  void pause();   // from inside: back to the caller of resume()

  // Around an exception, from inside. AddressSanitizer has to know the stack whose red zones an
  // exception clears. Of other switches it is told only where locals are on the heap, because that
  // takes as long as the switch itself.
  void before_throwing();
  void after_catching();

 private:
  static void enter(boost::context::detail::transfer_t from);

  void (*body_)(Fiber&);
  boost::context::detail::fcontext_t context_, caller_ = nullptr;
  const void* caller_stack_ = nullptr;
  size_t caller_stack_bytes_ = 0;
  bool throwing_ = false;
  char* stack_;
};

}  // namespace simt
