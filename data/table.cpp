#include "data/table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "data/byte_stream.h"
#include "data/lines.h"

namespace accrue {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are read as they lie");

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find(',', begin), line.size());
    const size_t from = line.find_first_not_of(" \t\"", begin);
    const size_t to = line.find_last_not_of(" \t\"", end - (end > begin));
    fields.push_back(from < end && to != std::string::npos && from <= to
                         ? line.substr(from, std::min(to + 1, end) - from)
                         : std::string());
    begin = end + 1;
  }
  return fields;
}

std::optional<float> number_in(const std::string& text) {
  float value = 0;
  const char* const begin = text.data() + (text.starts_with('+') && !text.starts_with("+-"));
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error != std::errc() || stop != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

// True for a number, even if it is too large, and for nothing or a word in place of a missing one.
bool is_value(const std::string& field) {
  std::string word = field;
  std::ranges::transform(word, word.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::array missing{"", "na", "n/a", "nan", "null", "none", "?"};
  if (std::ranges::find(missing, word) != missing.end()) return true;
  double value = 0;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data() + word.starts_with('+'), end, value);
  return error != std::errc::invalid_argument && stop == end;
}

}  // namespace

Table::Table(std::vector<std::string> columns, std::vector<float> values)
    : columns_(std::move(columns)), values_(std::move(values)) {
  check(!columns_.empty() && values_.size() % columns_.size() == 0,
        "a table of {} values in {} columns: expected whole rows", values_.size(), columns_.size());
}

size_t Table::column(const std::string& name) const {
  const auto found = std::ranges::find(columns_, name);
  check(found != columns_.end(), "a table has no column '{}': it has {}", name,
        fmt::join(columns_, ", "));
  return size_t(found - columns_.begin());
}

Tensor Table::numbers(std::span<const std::string> columns) const {
  std::vector<size_t> wanted;
  for (const std::string& name : columns) wanted.push_back(column(name));
  const Tensor result =
      Tensor::empty({rows(), int64_t(wanted.size())}, DType::f32, Device::cpu, Category::data);
  auto to = result.span<float>().begin();
  for (size_t row = 0; row < values_.size(); row += columns_.size())
    for (const size_t c : wanted) *to++ = values_[row + c];
  return result;
}

Tensor Table::indices(const std::string& column_name, int64_t classes) const {
  const size_t wanted = column(column_name);
  const Tensor result = Tensor::empty({rows()}, DType::i32, Device::cpu, Category::data);
  const auto to = result.span<int32_t>();
  for (size_t row = 0; row < to.size(); ++row) {
    const float value = values_[row * columns_.size() + wanted];
    check(value == std::floor(value) && 0 <= value && value < float(classes),
          "row {} of column '{}' is {}: expected a class from 0 to {}", row, column_name, value,
          classes - 1);
    to[row] = int32_t(value);
  }
  return result;
}

Tensor Table::one_hot(std::span<const std::string> names) const {
  std::vector<size_t> wanted;
  for (const std::string& name : names) wanted.push_back(column(name));
  const Tensor result = Tensor::empty({rows()}, DType::i32, Device::cpu, Category::data);
  const auto to = result.span<int32_t>();
  for (size_t row = 0; row < to.size(); ++row) {
    int32_t ones = 0, zeros = 0;
    for (size_t k = 0; k < wanted.size(); ++k) {
      const float value = values_[row * columns_.size() + wanted[k]];
      if (value == 1) to[row] = int32_t(k), ++ones;
      else zeros += value == 0;
    }
    check(ones == 1 && ones + zeros == std::ssize(wanted),
          "row {} has {} times 1 and {} times 0 in {}: expected one 1 and else 0", row, ones, zeros,
          fmt::join(names, ", "));
  }
  return result;
}

Tensor Table::weights(const std::string& column_name) const {
  const size_t wanted = column(column_name);
  const Tensor result = Tensor::empty({rows()}, DType::f32, Device::cpu, Category::data);
  const auto to = result.span<float>();
  for (size_t row = 0; row < to.size(); ++row) {
    to[row] = values_[row * columns_.size() + wanted];
    check(to[row] >= 0, "row {} of column '{}' is {}: expected a weight that is not negative", row,
          column_name, to[row]);
  }
  return result;
}

Table read_csv(const std::filesystem::path& path) {
  Lines lines(path);
  std::vector<std::string> columns;
  std::vector<float> values;
  for (std::string line; lines.next(line);) {
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    const std::vector<std::string> fields = fields_of(line);
    if (columns.empty()) {
      const bool named = !std::ranges::all_of(fields, is_value);
      for (size_t c = 0; c < fields.size(); ++c)
        columns.push_back(named ? fields[c] : fmt::format("{}", c));
      if (named) continue;
    }
    check(fields.size() == columns.size(), "{}: {} values, expected {} as in the first line",
          lines.here(), fields.size(), columns.size());
    for (size_t c = 0; c < fields.size(); ++c) {
      const std::optional<float> value = number_in(fields[c]);
      check(value.has_value(), "{}: {} is '{:.40}', expected a finite number", lines.here(),
            columns[c], fields[c]);
      values.push_back(*value);
    }
  }
  check(!values.empty(), "'{}' has no rows of numbers", path.string());
  return Table(std::move(columns), std::move(values));
}

namespace {

constexpr std::string_view digits = "0123456789";

struct NpyHeader {
  std::string type;  // "<f4"
  std::vector<int64_t> sizes;
};

uint64_t little_endian(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(bytes[i]);
  return value;
}

// The text after a key in a header, which is a Python dictionary.
std::string_view value_of(std::string_view header, std::string_view key) {
  const size_t found = header.find(key);
  if (found == std::string_view::npos) return {};
  header.remove_prefix(found + key.size());
  header.remove_prefix(std::min(header.find_first_not_of(" \t"), header.size()));
  return header;
}

// The text between the characters `first` and `last`; `text` must begin with `first`.
std::optional<std::string_view> enclosed(std::string_view text, char first, char last) {
  const size_t end = text.find(last, 1);
  if (!text.starts_with(first) || end == std::string_view::npos) return std::nullopt;
  return text.substr(1, end - 1);
}

bool has_only(std::string_view text, std::string_view characters) {
  return text.find_first_not_of(characters) == std::string_view::npos;
}

// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
NpyHeader read_npy_header(InputFile& file) {
  const std::string name = file.path().string();
  const auto read = [&](size_t bytes) {
    std::vector<std::byte> result(bytes);
    check(file.read(result) == bytes, "'{}' ends within the header of an .npy file", name);
    return result;
  };
  const std::vector<std::byte> magic = read(8);
  const std::string_view start(reinterpret_cast<const char*>(magic.data()), 6);
  check(start == "\x93NUMPY", "'{}' is no .npy file: it does not begin with \\x93NUMPY", name);
  const int version = std::to_integer<int>(magic[6]);
  check(1 <= version && version <= 3, "'{}' is an .npy file of version {}, expected 1 to 3", name,
        version);
  const uint64_t length = little_endian(read(version == 1 ? 2 : 4));
  check(length <= std::min<uint64_t>(file.size(), 1024),
        "'{}' says that its header has {} bytes: expected no more than the file has, and at most "
        "1024",
        name, length);
  const std::vector<std::byte> bytes = read(length);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());

  const auto type = enclosed(value_of(text, "'descr':"), '\'', '\'');
  check(type && type->size() >= 2 && has_only(type->substr(type->size() - 1), digits),
        "'{}': the header has no simple 'descr': {:.200}", name, text);
  check(value_of(text, "'fortran_order':").starts_with("False"),
        "'{}' is in column-major order: expected numpy.ascontiguousarray() of it", name);
  const auto shape = enclosed(value_of(text, "'shape':"), '(', ')');
  check(shape && has_only(*shape, fmt::format("{}, ", digits)),
        "'{}': the header has no 'shape': {:.200}", name, text);
  const std::string_view sizes = *shape;
  NpyHeader header{.type = std::string(*type), .sizes = {}};
  for (const char* c = sizes.data(); c < sizes.data() + sizes.size();) {
    int64_t size = 0;
    const auto [stop, error] = std::from_chars(c, sizes.data() + sizes.size(), size);
    if (error == std::errc::result_out_of_range) size = std::numeric_limits<int64_t>::max();
    if (stop != c) header.sizes.push_back(size);
    c = stop == c ? c + 1 : stop;
  }
  check(header.sizes.size() <= Shape::max_rank, "'{}' has {} dimensions; accrue holds up to {}",
        name, header.sizes.size(), Shape::max_rank);
  return header;
}

// Reads elements of type From and converts them to type To, one piece after another.
template <class From, class To>
Tensor read_elements(InputFile& file, const Shape& shape) {
  const Tensor result = Tensor::empty(shape, dtype_of<To>(), Device::cpu, Category::data);
  const auto to = result.span<To>();
  std::array<From, 4096> piece;
  for (size_t first = 0; first < to.size(); first += piece.size()) {
    const auto part = std::span(piece).first(std::min(piece.size(), to.size() - first));
    check(file.read(std::as_writable_bytes(part)) == part.size_bytes(),
          "'{}' shrank while it was read", file.path().string());
    for (size_t i = 0; i < part.size(); ++i) {
      const To value = static_cast<To>(part[i]);
      if constexpr (std::is_integral_v<To>)
        check(std::in_range<To>(part[i]), "'{}': element {} is {}, which {} does not hold",
              file.path().string(), first + i, part[i], name(dtype_of<To>()));
      to[first + i] = value;
    }
  }
  return result;
}

}  // namespace

Tensor read_npy(const std::filesystem::path& path) {
  InputFile file(path);
  const NpyHeader header = read_npy_header(file);
  const bool is_little = header.type.starts_with('<') || header.type.starts_with('|');
  const std::string kind = header.type.substr(header.type.size() - 2);
  const bool known =
      is_little && (kind == "u1" || kind == "i4" || kind == "i8" || kind == "f4" || kind == "f8");
  check(known, "'{}' holds {}: expected u1, i4, i8, f4 or f8, little-endian", path.string(),
        header.type);
  // A size of 0 counts as 1, so it cannot hide a large size. No product overflows.
  const uint64_t width = uint64_t(kind[1] - '0');
  uint64_t elements = 1;
  for (const int64_t size : header.sizes) {
    check(uint64_t(size) <= file.size() / width / elements,
          "'{}' is too short for an array of {} whose sizes include {}", path.string(), kind, size);
    elements *= std::max<uint64_t>(uint64_t(size), 1);
  }
  const Shape shape(header.sizes);
  const Tensor values = kind == "u1"   ? read_elements<uint8_t, uint8_t>(file, shape)
                        : kind == "i4" ? read_elements<int32_t, int32_t>(file, shape)
                        : kind == "i8" ? read_elements<int64_t, int32_t>(file, shape)
                        : kind == "f4" ? read_elements<float, float>(file, shape)
                                       : read_elements<double, float>(file, shape);
  std::byte more;
  check(file.read({&more, 1}) == 0, "'{}' has bytes left over after {} of its {} {}", path.string(),
        shape.numel(), shape, kind);
  return values;
}

}  // namespace accrue
