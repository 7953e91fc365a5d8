// Graphs that CUDA refuses to launch.

#include "core/graph_queue.h"

#include "core/cuda_context.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/files.h"

namespace accrue::test {

TEST_CASE("what is refused where nothing can be thrown is told of by the next flush", "[faults]") {
  if (test_device() != Device::cuda) SKIP_LOUDLY("graphs need --device cuda");
  cuda::GraphQueue queue(cuda::context().stream());
  const cuda::RecordedGraph nothing;
  queue.add(nothing);
  REQUIRE_ERROR(queue.flush(), "CUDA failed to replay what was recorded");
  queue.flush();

  queue.add(nothing);
  queue.flush_and_keep_error();
  queue.add(nothing);  // launched after the first is told of
  REQUIRE_ERROR(queue.flush(), "CUDA failed to replay what was recorded");
  REQUIRE_ERROR(queue.flush(), "CUDA failed to replay what was recorded");
  queue.flush();

  for (int i = 0; i < 2; ++i) {
    queue.add(nothing);
    queue.flush_and_keep_error();
  }
  REQUIRE_ERROR(queue.flush(), "CUDA failed to replay what was recorded");
  queue.flush();
  cudaGetLastError();
}

}  // namespace accrue::test
