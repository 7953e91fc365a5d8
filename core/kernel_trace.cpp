#include "core/kernel_trace.h"

namespace accrue {

thread_local constinit KernelTrace* KernelTrace::of_this_thread = nullptr;

}  // namespace accrue
