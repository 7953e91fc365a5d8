// dk and dv of attention in 16 bits on cuda, as sums over parts of a group's heads.

#include "core/autograd.h"
#include "core/ledger.h"
#include "kernels/attention.h"
#include "kernels/causal_attention.h"
#include "kernels/detail/causal_attention_kernels.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace head_parts_test {
namespace {

HeadParts parts_of(int64_t N, int64_t T, const AttentionHeads& heads, DType dtype = DType::bf16) {
  const View q{nullptr, {N, T, heads.queries * heads.size}, dtype, Device::meta_cuda},
      k{nullptr, {N, T, heads.groups * heads.size}, dtype, Device::meta_cuda};
  return HeadParts(CausalSizes({{q}, {k}, {k}, {}, heads}), dtype);
}

}  // namespace

TEST_CASE("a group's heads are cut into parts where keys have few blocks", "[ops]") {
  const AttentionHeads tiny_llama{32, 4, 64};
  REQUIRE(parts_of(1, 1024, tiny_llama).count == 8);  // of 64 blocks
  REQUIRE(parts_of(1, 2048, tiny_llama).count == 4);  // of 128
  REQUIRE(parts_of(1, 2049, tiny_llama).count == 1);  // of 132
  REQUIRE(parts_of(4, 1024, tiny_llama).count == 1);
  REQUIRE(parts_of(1, 1024, {4, 4, 64}).count == 1);  // one head each
  REQUIRE(parts_of(1, 1024, tiny_llama, DType::f32).count == 1);
  REQUIRE(parts_of(1, 1024, {32, 4, 136}).count == 1);
}

TEST_CASE("sums of parts of a group's heads take at most 21 MiB", "[ops]") {
  for (const int64_t heads : {2, 3, 8, 71, 600})
    for (int64_t T = 1; T <= 9000; T = T * 4 / 3 + 1) {
      const HeadParts parts = parts_of(1, T, {heads, 1, 64});
      REQUIRE(parts.floats() * int64_t(sizeof(float)) <= 21 << 20);
    }
}

// The blocks of the same keys end in another order each time. Heads of equal queries, and of large
// dy that cancel, leave what the order of their additions rounds.
TEST_CASE("sums of parts of a group's heads have the same bits in any order of threads", "[ops]") {
  const AttentionHeads groups_of_4{8, 2, 16}, groups_of_8{8, 1, 72};
  for (const AttentionHeads& heads : {groups_of_4, groups_of_8})
    for (const uint64_t seed : {1, 2, 3}) {
      const int64_t T = heads.size == 16 ? 70 : 20;
      const int64_t width = (heads.queries + 2 * heads.groups) * heads.size;
      const Shape packed{1, T, width};
      Values x = random_values(packed, seed);
      Values dy = random_values({1, T, heads.queries * heads.size}, seed + 10);
      for (size_t t = 0; t < size_t(T); ++t)
        for (size_t i = 0; i < size_t(heads.queries * heads.size); ++i) {
          const size_t head = i / size_t(heads.size), channel = i % size_t(heads.size);
          double* const dy_of_row = &dy[t * size_t(heads.queries * heads.size)];
          x[t * size_t(width) + i] = x[t * size_t(width) + channel];
          if (head % 4 == 0) dy_of_row[i] *= 0x1p20;
          if (head % 4 == 2) dy_of_row[i] = -dy_of_row[i - 2 * size_t(heads.size)];
        }
      Values expected;
      for (int order = 0; order < thread_orders(); ++order) {
        set_thread_order(order);
        const Tensor qkv = require_grad(tensor_with(x, packed, DType::bf16));
        backward_from(causal_attention(qkv, heads), dy);
        const Values found = to_doubles(grad(qkv));
        if (order == 0) expected = found;
        REQUIRE(found == expected);
      }
      set_thread_order(0);
    }
}

TEST_CASE("sums of parts of a group's heads take the memory that is predicted", "[ops]") {
  const AttentionHeads heads{8, 2, 16};
  const auto peak_on = [&](Device device) {
    const Tensor qkv = require_grad(Tensor::full({1, 70, 12 * 16}, 0.5, DType::bf16, device));
    const size_t before = ledger(device).current().total();
    ledger(device).reset_peak();
    Tensor loss = Tensor::full({}, 1, DType::f32, device);
    const Edge edge = causal_attention(qkv, heads);
    record("sum", loss, {edge}, [edge](Tensor&) {
      claim_grad(edge);
      edge.variable()->grad.fill(1);
    });
    backward(loss);
    return ledger(device).peak().total() - before;
  };
  REQUIRE(peak_on(test_device()) == peak_on(meta_of(test_device())));
}

}  // namespace head_parts_test
}  // namespace accrue::test
