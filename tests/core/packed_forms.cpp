// Several threads that predict with one model may ask for the packed form of a weight at once.

#include <array>
#include <thread>

#include "core/autograd.h"
#include "core/inside.h"
#include "tests/support/catch.h"

namespace accrue::test {

TEST_CASE("threads share the packed forms of a weight", "[threads]") {
  constexpr int64_t forms = 50;
  PackedForms packed(Pack::on);
  using Found = std::array<const void*, forms>;
  std::array<Found, 4> found{};
  std::vector<std::thread> threads;
  for (Found& mine : found)
    threads.emplace_back([&] {
      for (int64_t key = 0; key < forms; ++key) {
        const Tensor form = packed.form(key, [&] {
          const Tensor made = Tensor::empty({8}, DType::f32, Device::cpu);
          made.fill(double(key));
          return made;
        });
        if (form.span<float>()[7] == float(key)) mine[size_t(key)] = form.view().data;
      }
    });
  for (std::thread& thread : threads) thread.join();
  REQUIRE(found[0][0] != nullptr);
  for (const Found& mine : found) REQUIRE(mine == found[0]);
}

}  // namespace accrue::test
