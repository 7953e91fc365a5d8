#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/safetensors.h"

namespace accrue::detail {

// The meaning of a network's answers: the classes that it tells apart, in its order. They belong to
// its weights, whose file has them, and not to the data at hand.
struct Classes {
  std::vector<std::string> names{};  // without names, their values or numbers
  std::vector<uint8_t> values{};     // that stand for them in files (Field::class_values)
  bool operator==(const Classes&) const = default;

  int64_t size() const { return static_cast<int64_t>(names.size()); }
  // True unless their names are their values or numbers.
  bool have_names() const;
  // "cat, dog, fish", or "sea (0), sand (80)" with values; of many, the first.
  std::string describe() const;
};

// The classes of a field that has some: indices, or the planes of masks. A byte of a name that is
// no UTF-8 is written as \xE4, so that any file can hold it.
Classes classes_of(const Field& field);

// Into and from the metadata of weights: class-names and class-values, lists in JSON. The second
// returns nothing if the metadata has no names, and throws Error if they are no list of names.
void add_classes(const Classes& classes, Metadata& metadata);
std::optional<Classes> classes_in(const Metadata& metadata);

// The places of a data set's classes among a network's. They are matched by their names, or by
// their values if one side has no names.
struct ClassMatch {
  std::vector<int32_t> places{};       // of each class of the data; -1 if the network has it not
  std::vector<std::string> lacking{};  // the network's classes that the data has not
  bool is_known() const;               // the network knows all of them
  bool is_complete() const { return is_known() && lacking.empty(); }
};
ClassMatch match_classes(const Classes& data, const Classes& network);

// Numbers a field's classes as the network does, all of which it knows. Planes of masks must also
// be as many.
void renumber_classes(Field& field, const ClassMatch& match, const Classes& network);

}  // namespace accrue::detail
