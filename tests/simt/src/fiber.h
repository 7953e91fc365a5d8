#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

namespace simt {

// A stack of its own on which `body` runs, in turns with the caller of resume(). The bare fcontext
// is used because the sanitizers have to be told of every switch, also of the ones that
// boost::context::fiber makes inside its constructor and destructor.
class Fiber {
 public:
  // `body` never returns: it calls pause() where it has nothing to do.
  Fiber(void (*body)(Fiber&), size_t colour);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void resume();  // from outside: runs the fiber until it pauses
  void pause();   // from inside: back to the caller of resume()

 private:
  static void enter(boost::context::detail::transfer_t from);

  void (*body_)(Fiber&);
  boost::context::detail::fcontext_t context_, caller_ = nullptr;
  const void* caller_stack_ = nullptr;
  size_t caller_stack_bytes_ = 0;
  char* stack_;
};

}  // namespace simt
