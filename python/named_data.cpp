#include "python/named_data.h"

#include <fmt/ranges.h>
#include <nanobind/stl/string.h>

#include <algorithm>

#include "kernels/judged.h"
#include "python/fetched.h"

namespace accrue::python {

bool are_named(nb::handle data) { return nb::isinstance<nb::dict>(data); }

namespace {

// Indices of any shape.
Field indices_seen(const Array& array, const std::string& name) {
  check(is_integers(array), "{} is {}: expected integers, which the network's input takes", name,
        described(array));
  const Tensor values =
      Tensor::empty(shape_of(array, name.c_str()), DType::i32, Device::cpu, Category::data);
  int64_t most = -1;
  with_integers(array, [&](auto elements) {
    constexpr int64_t end = int64_t{1} << 31;
    auto to = values.span<int32_t>().begin();
    for (const auto element : elements) {
      check(std::cmp_greater_equal(element, 0) && std::cmp_less(element, end),
            "{} has {}: expected indices from 0 on", name, element);
      most = std::max(most, static_cast<int64_t>(element));
      *to++ = static_cast<int32_t>(element);
    }
    return 0;
  });
  return {.name = name, .values = values, .encoding = Encoding::index, .classes = most + 1};
}

Field input_of(const Array& array, const Network::Input& input) {
  Field field = input.sizes.dtype == DType::i32 ? indices_seen(array, input.name)
                                                : seen_by_name(array, input.name);
  const int64_t N = field.values.size(0);
  const Shape expected = input.sizes.of(N), &found = field.values.shape();
  check(found == expected, "{} is {}, but the network's input is {}", input.name, described(array),
        to_string(input.sizes));
  return field;
}

}  // namespace

Dataset dataset_by_name(nb::handle given, const char* what,
                        const std::vector<Network::Input>& inputs, TakesTargets takes) {
  const auto arrays = nb::cast<nb::dict>(given);
  Dataset data{.name = "arrays", .source = "the caller"};
  if (arrays.size() > 0) data.name = name_of_given({(*arrays.begin()).second});
  std::vector<std::string> names;
  for (const Network::Input& input : inputs) names.push_back(input.name);
  for (const Network::Input& input : inputs) {
    check(arrays.contains(input.name.c_str()),
          "{} has no '{}': expected an array for each input, {}", what, input.name,
          fmt::join(names, ", "));
    data.fields.push_back(field_in(arrays[input.name.c_str()], input.name,
                                   [&](const Array& a) { return input_of(a, input); }));
  }
  for (const auto& [key, array] : arrays) {
    check(nb::isinstance<nb::str>(key), "{} has the key {}: expected names, as text", what,
          nb::cast<std::string>(nb::repr(key)));
    const std::string name = nb::cast<std::string>(key);
    if (std::ranges::find(names, name) != names.end()) continue;
    check(takes == TakesTargets::yes, "{} has '{}', which is no input of the network: expected {}",
          what, name, fmt::join(names, ", "));
    data.fields.push_back(
        field_in(array, name, [&](const Array& a) { return answered_by_name(a, name); }));
  }
  const int64_t N = data.fields.front().values.size(0);
  check(N > 0, "{} has no samples: expected some", names.front());
  for (const Field& field : data.fields)
    check(field.values.size(0) == N, "{} has {}, but {} has {}: expected the same number",
          names.front(), counted(N, "sample"), field.name, field.values.size(0));
  return data;
}

Datasets datasets_by_name(nb::handle data, nb::handle test,
                          const std::vector<Network::Input>& inputs) {
  const nb::handle scored = test.is_none() ? data : test;
  check(are_named(scored), "test has no names, but data has: expected a dictionary of arrays");
  Datasets both{dataset_by_name(data, "data", inputs, TakesTargets::yes),
                dataset_by_name(scored, "test", inputs, TakesTargets::yes)};
  both.test.is_trained_on = test.is_none();
  // In the order of the training data.
  std::vector<Field> in_order;
  for (Field& field : both.train.fields) {
    check(both.test.has(field.name), "test has no '{}', but data has: expected the same arrays",
          field.name);
    Field other = both.test.field(field.name);
    check(field.encoding == other.encoding &&
              field.values.shape().with(0, 1) == other.values.shape().with(0, 1),
          "{} is {} in data, but {} in test: expected arrays of the same kind", field.name,
          field.values.shape(), other.values.shape());
    field.classes = other.classes = std::max(field.classes, other.classes);
    field.has_not_judged = other.has_not_judged = field.has_not_judged || other.has_not_judged;
    in_order.push_back(std::move(other));
  }
  for (const Field& field : both.test.fields)
    check(both.train.has(field.name), "test has '{}', but data has not: expected the same arrays",
          field.name);
  both.test.fields = std::move(in_order);
  return both;
}

std::string weights_for(const std::string& output) { return "weights of " + output; }

void add_weights_by_name(Datasets& data, nb::handle weights,
                         const std::vector<std::string>& outputs) {
  if (!are_named(weights)) return append_weights(data, weights);
  for (const auto& [key, given] : nb::cast<nb::dict>(weights)) {
    const std::string output = nb::cast<std::string>(nb::str(key));
    check(std::ranges::find(outputs, output) != outputs.end(),
          "sample_weight has '{}', which is no output of the network: expected {}", output,
          fmt::join(outputs, ", "));
    append_weights(data, given, weights_for(output));
  }
}

}  // namespace accrue::python
