#include "core/tensor.h"

#include "tests/support/catch.h"
#include "tests/support/device.h"

namespace accrue::test {

TEST_CASE("elements are read by their type, or the error names the type", "[engine]") {
  const Tensor x = Tensor::from(std::vector<float>{1, 2}, {2});
  REQUIRE(x.span<float>()[1] == 2);
  REQUIRE_ERROR(x.span<int32_t>(), "span<int32_t>() of a tensor f32 [2]: expected span<float>()");
}

TEST_CASE("a tensor has read the values that it is made from", "[engine]") {
  const PageableAccess late;
  std::vector<float> values{1, 2};
  const Tensor x = Tensor::from(values, {2}, test_device());
  values[0] = values[1] = 3;
  REQUIRE(to_doubles(x) == std::vector<double>{1, 2});
}

TEST_CASE("an undefined tensor is an error to whoever asks it for more than its shape",
          "[engine]") {
  const Tensor nothing, x = Tensor::full({2}, 1, DType::f32, test_device());
  REQUIRE_ERROR(nothing.device(), "an undefined tensor has no elements, and is on no device");
  REQUIRE_ERROR(nothing.view(), "an undefined tensor");
  REQUIRE_ERROR(nothing.span<float>(), "an undefined tensor");
  REQUIRE_ERROR(nothing.to(Device::cpu), "an undefined tensor");
  REQUIRE_ERROR(nothing.fill(1), "an undefined tensor");
  REQUIRE_ERROR(nothing.copy_from(Tensor()), "an undefined tensor");
  REQUIRE_ERROR(x.reshape({}), "cannot reshape");
}

TEST_CASE("what fill() refuses on a device it refuses on its meta", "[engine]") {
  for (const Device device : {test_device(), meta_of(test_device())})
    REQUIRE_ERROR(Tensor::full({2}, 1, DType::i32, device), "expected a floating dtype, got i32");
}

TEST_CASE("elements that wait are computed when somebody first asks for them", "[engine]") {
  int computed = 0;
  const auto make = [&] {
    const Tensor x = Tensor::empty({2}, DType::f32, test_device());
    x.compute_later([&computed](const View& elements) {
      if (++computed == 1) fail("not yet");
      REQUIRE(elements.shape == Shape{2});
      REQUIRE(elements.data != nullptr);
    });
    return x;
  };
  // Nobody asks for elements by a look at their shape or at their future.
  const Tensor x = make(), part = x.slice(1, 2);
  REQUIRE(x.future_view().data == x.reshape({2, 1}).future_view().data);
  REQUIRE(x.device() == test_device());
  REQUIRE(part.is_waiting());
  REQUIRE(computed == 0);
  REQUIRE_ERROR(part.view(), "not yet");
  REQUIRE(x.is_waiting());
  part.view();
  REQUIRE(computed == 2);
  REQUIRE_FALSE(x.is_waiting());
  x.view();
  REQUIRE(computed == 2);
  // Somebody else may write them.
  const Tensor y = make(), z = make();
  y.stop_waiting();
  y.fill(5);
  REQUIRE(to_doubles(y) == std::vector<double>{5, 5});
  REQUIRE(computed == 2);
  z.fill(6);  // computes them before it overwrites them
  REQUIRE(computed == 3);
  REQUIRE(to_doubles(z) == std::vector<double>{6, 6});
  REQUIRE_FALSE(Tensor().is_waiting());
  // A part makes its whole storage wait.
  const Tensor whole = Tensor::empty({2}, DType::f32, test_device()), last = whole.slice(1, 2);
  const void* written = nullptr;
  last.compute_later([&written](const View& elements) { written = elements.data; });
  REQUIRE(whole.is_waiting());
  whole.view();
  REQUIRE(written == last.view().data);
}

// Predictions run on meta devices. There, an unnoticed read would go through a null pointer, or
// return the content of an uninitialized block.
TEST_CASE("elements that are nowhere cannot be read", "[engine]") {
  const MemoryScope scope("labels");
  const Tensor labels = Tensor::empty({4}, DType::i32, meta_of(test_device()));
  const Tensor elsewhere = Tensor::without_elements({4}, DType::i32, Device::cpu);
  const Tensor here = Tensor::from(std::vector<int32_t>{1, 2, 3, 4}, {4}, test_device());
  for (const Tensor& x : {labels, elsewhere}) {
    REQUIRE_ERROR(x.view().as<int32_t>(), "the elements of i32 [4] on");
    REQUIRE_ERROR(x.span<int32_t>(), "'labels' i32 [4]");
    REQUIRE_ERROR(x.host_bytes(), "'labels' i32 [4]");
    REQUIRE_ERROR(here.copy_from(x), "because the first has no elements");
  }
  REQUIRE_ERROR(labels.to(Device::cpu), "'labels' i32 [4] on meta");
  REQUIRE_ERROR(elsewhere.copy_from(Tensor::from(std::vector<int32_t>(4), {4})),
                "because the second has no elements");
  REQUIRE_ERROR(Tensor::empty({}, DType::f32, meta_of(test_device())).item(), "'labels' f32 []");
  // Copies to a meta device are allowed: there are no elements to read.
  here.to(Device::meta).copy_from(here);
  elsewhere.to(Device::meta);
}

}  // namespace accrue::test
