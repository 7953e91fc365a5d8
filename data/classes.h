#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/safetensors.h"

namespace accrue::detail {

// The classes that a network distinguishes, in the order of its answers. They belong to its
// weights, whose file records them, and not to the data at hand.
struct Classes {
  std::vector<std::string> names{};  // if they have none, their values or numbers
  std::vector<uint8_t> values{};     // in files (Field::class_values)
  bool operator==(const Classes&) const = default;

  int64_t size() const { return static_cast<int64_t>(names.size()); }
  // False if every name is only the class's value or number.
  bool have_names() const;
  // "cat, dog, fish", or "sea (0), sand (80)" with values; only the first ones of many.
  std::string describe() const;
};

// The classes of a field of indices or masks, whose planes are its classes. A byte of a name that
// is not UTF-8 becomes text such as \xE4, so any file can hold the name.
Classes classes_of(const Field& field);

// Write the classes to and read them from the metadata of weights: class-names and class-values,
// lists in JSON. classes_in() returns nothing if the metadata has no names, and throws Error if
// they are not a list of names.
void add_classes(const Classes& classes, Metadata& metadata);
std::optional<Classes> classes_in(const Metadata& metadata);

// Matches a data set's classes with a network's classes, by their names, or by their values if one
// side has no names.
struct ClassMatch {
  std::vector<int32_t> places{};       // of each class of the data; -1 if the network lacks it
  std::vector<std::string> lacking{};  // the network's classes that the data lacks
  bool is_known() const;               // the network knows all of them
  bool is_complete() const { return is_known() && lacking.empty(); }
};
ClassMatch match_classes(const Classes& data, const Classes& network);

// Renumbers a field's classes as the network numbers them; the network must know all of them. A
// mask must have as many planes as the network has classes.
void renumber_classes(Field& field, const ClassMatch& match, const Classes& network);

}  // namespace accrue::detail
