// The number of launches in a micro-step of GPT-2 (docs/cuda.md, "The floor"), which the runner
// counts. It follows from the number of layers and not from their width, so a narrow network shows
// it.

#include "core/autograd.h"
#include "core/random.h"
#include "kernels/linear.h"
#include "kernels/linear_cross_entropy.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/skipped.h"
#include "text/language_modeling.h"
#include "text/models.h"
#include "train/training.h"

namespace accrue::test {
namespace {

// Like GPT-2's 50,257 tokens these are not a multiple of 8, and more than 64.
constexpr int64_t words = 69, tokens_of_row = 40;

Dataset rows_to_count(int64_t rows) {
  std::vector<int32_t> tokens, positions;
  RandomStream random(3);
  for (int64_t i = 0; i < rows * tokens_of_row; ++i) {
    tokens.push_back(static_cast<int32_t>(random.uniform(0, float(words) - 0.5f)));
    positions.push_back(static_cast<int32_t>(i % tokens_of_row));
  }
  const auto field = [&](const char* name, const std::vector<int32_t>& values, int64_t classes) {
    return Field{.name = name,
                 .values = Tensor::from(values, {rows, tokens_of_row}, test_device()),
                 .encoding = Encoding::index,
                 .classes = classes};
  };
  return {.name = "counted",
          .source = "",
          .fields = {field("tokens", tokens, words), field("positions", positions, tokens_of_row),
                     field("labels", tokens, words)}};
}

// The launches of a micro-step that adds to gradients, and of a step, when the plans of products
// exist.
struct OfText {
  LaunchKinds micro_step, step;
};

OfText count_text(int64_t layers) {
  constexpr int64_t m = 2, E = 4;
  TrainingOptions options;
  options.model = [layers] {
    return make_text_model(Gpt2Options{
        .vocabulary = words, .context = tokens_of_row, .width = 32, .layers = layers, .heads = 2});
  };
  options.objective = language_modeling();
  options.precision = Precision::bf16;
  options.batches = {m, E};
  options.cuda_graphs = Graphs::off;
  Training training(options, rows_to_count(2 * E), test_device());
  training.loader().start_epoch(0);
  const auto micro_step = [&] { training.micro_step(*training.loader().next(), 0); };
  const auto step = [&] { training.window().enqueue_step(); };
  micro_step(), micro_step(), step(), micro_step();
  return {launches_by_kind(micro_step), launches_by_kind(step)};
}

// The launches of a residual connection's sum, which its product adds.
LaunchKinds count_residual(int64_t rows, int64_t width) {
  const auto make = [](const Shape& shape) {
    return Tensor::full(shape, 0.5, DType::bf16, test_device());
  };
  const Tensor a = make({rows, width}), x = make({rows, 8}), w = make({8, width}),
               b = make({width});
  const NoGrad no_grad;
  const auto pass = [&] { detail::add_linear(a, x, w, b, Transpose::no); };
  pass();
  return launches_by_kind(pass);
}

// The launches of the head's loss and gradients over so many chunks of rows.
LaunchKinds count_head(int64_t chunks) {
  constexpr int64_t rows_of_chunk = 16, width = 32;
  const int64_t rows = chunks * rows_of_chunk;
  const auto make = [](int64_t count, DType dtype) {
    return require_grad(Tensor::full({count, width}, 0.5, dtype, test_device()));
  };
  const Tensor x = make(rows, DType::bf16), w = make(words, DType::f32),
               labels = Tensor::from(std::vector<int32_t>(size_t(rows), 7), {rows}, test_device());
  w.variable()->copy = Tensor::full({words, width}, 0.5, DType::bf16, test_device());
  const auto pass = [&] {
    zero_grad(x), zero_grad(w);
    backward(detail::linear_cross_entropy_in_backward(x, w, labels, {}, rows_of_chunk));
  };
  pass();
  return launches_by_kind(pass);
}

}  // namespace

// Counts by kind, so that a change shows where it is. Norms, attention and the gradients of biases
// are kernels of ours, products are the library's.
TEST_CASE("a micro-step of GPT-2 takes no more launches than it did", "[launches]") {
  if (!on_runner()) SKIP_LOUDLY("only the runner counts launches");
  const OfText one = count_text(1), two = count_text(2);
  const LaunchKinds head = count_head(2), more = count_head(3);
  // A layer has two residual connections. In a network as narrow as here, a kernel of ours adds
  // their products to 16 bits (kernels/linear.cu).
  const LaunchKinds residual = count_residual(4096, 768), narrow = count_residual(80, 32);
  REQUIRE(residual.kernels == 0);
  REQUIRE(residual.library_calls == 1);
  const LaunchKinds layer{two.micro_step.kernels - one.micro_step.kernels - 2 * narrow.kernels,
                          two.micro_step.library_calls - one.micro_step.library_calls};
  const LaunchKinds chunk{more.kernels - head.kernels, more.library_calls - head.library_calls};
  const LaunchKinds rest{one.micro_step.kernels - layer.kernels - 2 * narrow.kernels,
                         one.micro_step.library_calls - layer.library_calls};
  const int64_t rows_of_chunk =
      detail::chunk_rows_for(4096, 50257, DType::bf16, Device::cuda, detail::HeadPass::adds_to_dw);
  const int64_t chunks = 1 + (4096 - 1) / rows_of_chunk;
  const int64_t gpt2 = 12 * (layer.kernels + layer.library_calls) + rest.kernels +
                       rest.library_calls + (chunks - 1) * (chunk.kernels + chunk.library_calls);
  INFO("a layer has " << layer.kernels << " kernels and " << layer.library_calls
                      << " products, the rest " << rest.kernels << " and " << rest.library_calls
                      << ", a further chunk of the head " << chunk.kernels << " and "
                      << chunk.library_calls << ", a step " << two.step.kernels << " and "
                      << two.step.library_calls << "; gpt2 on 4 x 1024 tokens has " << chunks
                      << " chunks and " << gpt2 << " launches");
  REQUIRE(layer.kernels == 15);
  REQUIRE(layer.library_calls == 12);
  REQUIRE(rest.kernels == 18);
  REQUIRE(rest.library_calls == 3);
  REQUIRE(chunk.kernels == 3);
  REQUIRE(chunk.library_calls == 3);
  REQUIRE(two.step.kernels + two.step.library_calls == 5);
  REQUIRE(gpt2 == 369);
}

}  // namespace accrue::test
