// Graphs that CUDA refuses to launch.

#include "core/graph_queue.h"

#include <memory>

#include "core/cuda.h"
#include "core/cuda_context.h"
#include "core/refused_graphs.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/files.h"
#include "tests/support/skipped.h"

namespace accrue::test {

TEST_CASE("a refusal where nothing can be thrown is reported by the next flush", "[faults]") {
  if (test_device() != Device::cuda) SKIP_LOUDLY("graphs need --device cuda");
  cuda::GraphQueue queue(cuda::context().stream());
  const cuda::RecordedGraph nothing;
  queue.add(nothing);
  REQUIRE_ERROR(queue.flush(), "CUDA failed to replay what was recorded");
  queue.flush();

  queue.add(nothing);
  queue.flush_and_keep_error();
  queue.add(nothing);  // launched after the first failure is reported
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

TEST_CASE("the nodes of a launch are limited, however many graphs they are in", "[launches]") {
  if (!on_runner()) SKIP_LOUDLY("only the runner counts launches");
  const Tensor x = Tensor::full({1}, 0, DType::f32, Device::cuda);
  const auto recorded = [&](size_t nodes) {
    return std::make_unique<cuda::Graph>([&x, nodes] {
      for (size_t i = 0; i < nodes; ++i) x.fill(0);
    });
  };
  const size_t half = cuda::GraphQueue::most_nodes / 2;
  const auto launches = [](const cuda::Graph& graph, int times) {
    const auto launch = [&] {
      for (int i = 0; i < times; ++i) graph.launch();
      cuda::synchronize();
    };
    launch(), launch();  // the second call makes the graph
    return launches_of(launch);
  };
  REQUIRE(launches(*recorded(half), 2) == 1);
  REQUIRE(launches(*recorded(half), 5) == 3);
  REQUIRE(launches(*recorded(half + 1), 3) == 3);
  REQUIRE(launches(*recorded(2 * half + 1), 2) == 2);
  REQUIRE(launches(*recorded(1), 100) == 1);
}

TEST_CASE("a graph of graphs that CUDA refuses is launched in parts", "[faults]") {
  if (test_device() != Device::cuda) SKIP_LOUDLY("graphs need --device cuda");
  cuda::refused_graphs();
  cuda::GraphQueue queue(cuda::context().stream());
  const cuda::RecordedGraph nothing;
  for (int i = 0; i < 2; ++i) {
    queue.add(nothing), queue.add(nothing);
    REQUIRE_ERROR(queue.flush(), "CUDA failed to replay what was recorded");
  }
  const auto lines = cuda::refused_graphs();
  REQUIRE(lines.size() == 1);
  REQUIRE(lines.begin()->starts_with("CUDA failed to make a graph of graphs: "));
  cudaGetLastError();
}

}  // namespace accrue::test
