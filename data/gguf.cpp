#include "data/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "core/inside.h"
#include "data/gguf_types.h"

namespace accrue {
namespace {

static_assert(std::endian::native == std::endian::little, "values are read as they lie");

constexpr uint64_t max_alignment = 1 << 20;
constexpr int max_gguf_rank = 4, max_array_depth = 4;

// The bytes of a value, or the fewest that it may have: a text has its length before it, an array
// the type and number of its values.
constexpr std::array<uint64_t, type_count> type_bytes{1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};
constexpr std::array<const char*, type_count> type_names{
    "an integer", "an integer", "an integer", "an integer", "an integer", "an integer", "a number",
    "a boolean",  "a text",     "an array",   "an integer", "an integer", "a number"};

// The names of all tensor types, for an error message.
constexpr std::array<const char*, 31> tensor_type_names{
    "F32",     "F16",    "Q4_0",    "Q4_1",  "",       "",      "Q5_0",  "Q5_1",
    "Q8_0",    "Q8_1",   "Q2_K",    "Q3_K",  "Q4_K",   "Q5_K",  "Q6_K",  "Q8_K",
    "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS",
    "I8",      "I16",    "I32",     "I64",   "F64",    "IQ1_M", "BF16"};

template <class T>
T value_at(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

std::string name_of_tensor_type(uint32_t type) {
  const bool is_known = type < tensor_type_names.size() && *tensor_type_names[type] != '\0';
  return is_known ? tensor_type_names[type] : fmt::format("number {}", type);
}

}  // namespace

// Reads a file from its beginning to its end.
class GgufFile::Reader {
 public:
  explicit Reader(GgufFile& file) : file_(file), bytes_(file.file_.bytes()) {}

  void read() {
    const auto [tensors, values] = read_header();
    for (uint64_t i = 0; i < values; ++i) read_key();
    read_tensors(tensors);
  }

 private:
  template <class... Args>
  void require(bool ok, fmt::format_string<Args...> message, Args&&... args) const {
    if (!ok)
      fail("'{}' is not a valid GGUF file: {}", file_.path_.string(),
           fmt::format(message, std::forward<Args>(args)...));
  }

  size_t left() const { return bytes_.size() - position_; }

  std::span<const std::byte> take(uint64_t bytes, std::string_view what) {
    require(bytes <= left(), "expected {} bytes of {} at byte {}, but only {} follow (truncated?)",
            bytes, what, position_, left());
    const auto taken = bytes_.subspan(position_, static_cast<size_t>(bytes));
    position_ += taken.size();
    return taken;
  }
  template <class T>
  T take_value(std::string_view what) {
    return value_at<T>(take(sizeof(T), what).data());
  }
  std::string take_name(std::string_view what) {
    const auto bytes = take(take_value<uint64_t>(what), what);
    require(!bytes.empty(), "{} that ends at byte {} is empty", what, position_);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  struct Counts {
    uint64_t tensors, values;
  };
  Counts read_header();
  void read_key();
  void skip(uint32_t type, uint64_t count, const std::string& key, int depth);
  void read_tensors(uint64_t count);
  GgufTensor read_tensor(uint64_t& offset);
  Shape read_shape(const std::string& name);
  DType read_type(const std::string& name);

  GgufFile& file_;
  const std::span<const std::byte> bytes_;
  size_t position_ = 0;
};

GgufFile::Reader::Counts GgufFile::Reader::read_header() {
  const auto magic = take(4, "'GGUF'");
  require(std::memcmp(magic.data(), "GGUF", 4) == 0, "it does not begin with 'GGUF'");
  const auto version = take_value<uint32_t>("the version");
  require(version != 0x02000000 && version != 0x03000000,
          "it is big-endian, expected little-endian");
  require(version == 2 || version == 3, "it is of version {}, expected 2 or 3", version);
  const auto tensors = take_value<uint64_t>("the number of tensors");
  const auto values = take_value<uint64_t>("the number of keys");
  // A key needs at least a name of one byte with its length, and a type with a value. A tensor
  // needs at least such a name, a rank, a type and an offset.
  constexpr uint64_t least_value = 8 + 1 + 4 + 1, least_tensor = 8 + 1 + 4 + 4 + 8;
  require(
      values <= left() / least_value && tensors <= left() / least_tensor,
      "it says that it has {} keys and {} tensors, which do not fit in the {} bytes that follow",
      values, tensors, left());
  return {tensors, values};
}

void GgufFile::Reader::read_key() {
  std::string key = take_name("a key");
  Value value{take_value<uint32_t>("the type of a value"), false, 1, {}};
  if (value.type == type_array) {
    value = {take_value<uint32_t>("the type of an array"),
             true,
             take_value<uint64_t>("the length of an array"),
             {}};
  }
  const size_t begin = position_;
  skip(value.type, value.count, key, 1);
  value.content = bytes_.subspan(begin, position_ - begin);
  const auto [place, is_new] = file_.values_.emplace(std::move(key), value);
  require(is_new, "it has the key '{}' twice", place->first);
}

void GgufFile::Reader::skip(uint32_t type, uint64_t count, const std::string& key, int depth) {
  require(type < type_count, "the value of '{}' is of type {}, expected at most {}", key, type,
          type_count - 1);
  require(count <= left() / type_bytes[type],
          "the value of '{}' has {} elements, which do not fit in the {} bytes that follow", key,
          count, left());
  if (type == type_text) {
    for (uint64_t i = 0; i < count; ++i) take(take_value<uint64_t>(key), key);
  } else if (type == type_array) {
    require(depth < max_array_depth, "the value of '{}' is arrays of more than {} levels", key,
            max_array_depth);
    for (uint64_t i = 0; i < count; ++i) {
      const auto inner = take_value<uint32_t>(key);
      skip(inner, take_value<uint64_t>(key), key, depth + 1);
    }
  } else {
    const auto values = take(count * type_bytes[type], key);
    if (type == type_bool)
      require(std::ranges::all_of(values, [](std::byte b) { return b <= std::byte{1}; }),
              "the value of '{}' is a boolean that is neither 0 nor 1", key);
  }
}

Shape GgufFile::Reader::read_shape(const std::string& name) {
  const auto rank = take_value<uint32_t>(name);
  require(rank <= max_gguf_rank, "tensor '{}' has {} dimensions, expected at most {}", name, rank,
          max_gguf_rank);
  // A limit far above any file and far below overflow.
  uint64_t most = uint64_t{1} << 56;
  std::vector<int64_t> sizes(rank);
  for (uint32_t i = rank; i-- > 0;) {
    const auto size = take_value<uint64_t>(name);
    require(size > 0 && size <= most,
            "tensor '{}' has the size {}, expected at least 1 and sizes that fit in memory", name,
            size);
    most /= size;
    sizes[i] = static_cast<int64_t>(size);
  }
  return Shape(sizes);
}

DType GgufFile::Reader::read_type(const std::string& name) {
  const auto type = take_value<uint32_t>(name);
  for (const auto& [number, block_type] : gguf_block_types)
    if (number == type) return block_type;
  fail(
      "'{}': tensor '{}' is of type {}; accrue reads F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, "
      "Q8_0, Q4_K and Q6_K",
      file_.path_.string(), name, name_of_tensor_type(type));
}

// The elements are found later, by the offset.
GgufTensor GgufFile::Reader::read_tensor(uint64_t& offset) {
  GgufTensor tensor{take_name("the name of a tensor"), {}, DType::f32, {}};
  tensor.shape = read_shape(tensor.name);
  tensor.type = read_type(tensor.name);
  const int64_t width = tensor.shape.rank() == 0 ? 1 : tensor.shape[-1];
  require(width % block_elements(tensor.type) == 0,
          "tensor '{}' has rows of {} elements, expected a multiple of the {} of a block of {}",
          tensor.name, width, block_elements(tensor.type), name(tensor.type));
  offset = take_value<uint64_t>(tensor.name);
  return tensor;
}

void GgufFile::Reader::read_tensors(uint64_t count) {
  const int64_t said = file_.integer("general.alignment").value_or(gguf_alignment);
  const auto alignment = static_cast<uint64_t>(said);
  require(said > 0 && alignment % 8 == 0 && alignment <= max_alignment,
          "general.alignment is {}, expected a multiple of 8 of at most {}", said, max_alignment);
  std::vector<uint64_t> offsets(static_cast<size_t>(count));
  for (uint64_t& offset : offsets) {
    GgufTensor tensor = read_tensor(offset);
    require(offset % alignment == 0,
            "tensor '{}' is at byte {} of the data, expected a multiple of the alignment {}",
            tensor.name, offset, alignment);
    const bool is_new = file_.places_.emplace(tensor.name, file_.tensors_.size()).second;
    require(is_new, "it has the tensor '{}' twice", tensor.name);
    file_.tensors_.push_back(std::move(tensor));
  }
  const size_t begin = (position_ + alignment - 1) / alignment * alignment;
  const uint64_t data_bytes = bytes_.size() - std::min(begin, bytes_.size());
  for (size_t i = 0; i < offsets.size(); ++i) {
    GgufTensor& tensor = file_.tensors_[i];
    const uint64_t blocks =
        static_cast<uint64_t>(tensor.shape.numel() / block_elements(tensor.type));
    const uint64_t bytes = blocks * block_bytes(tensor.type);
    require(
        offsets[i] <= data_bytes && bytes <= data_bytes - offsets[i],
        "tensor '{}', {} {}, takes {} bytes from byte {} of the data, which has {} (truncated?)",
        tensor.name, name(tensor.type), tensor.shape, bytes, offsets[i], data_bytes);
    tensor.elements = bytes_.subspan(begin + offsets[i], static_cast<size_t>(bytes));
  }
}

GgufFile::GgufFile(const std::filesystem::path& path) : path_(path), file_(path) {
  Reader(*this).read();
}

std::string GgufFile::bytes_of_keys(std::string_view prefix) const {
  std::string bytes;
  for (const auto& [key, value] : values_) {
    if (!key.starts_with(prefix)) continue;
    append_gguf_number(bytes, uint64_t{key.size()});
    bytes += key;
    if (value.is_array) append_gguf_number(bytes, uint32_t{type_array});
    append_gguf_number(bytes, value.type);
    if (value.is_array) append_gguf_number(bytes, value.count);
    bytes.append(reinterpret_cast<const char*>(value.content.data()), value.content.size());
  }
  return bytes;
}

std::string GgufFile::only_keys(std::string_view prefix) const {
  const auto begins_so = [&](const auto& value) { return value.first.starts_with(prefix); };
  std::string file = "GGUF";
  append_gguf_number(file, uint32_t{3});
  append_gguf_number(file, uint64_t{0});
  append_gguf_number(file, static_cast<uint64_t>(std::ranges::count_if(values_, begins_so)));
  return file + bytes_of_keys(prefix);
}

const GgufFile::Value* GgufFile::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

void GgufFile::refuse_lack(std::string_view key) const {
  fail("'{}' lacks the key '{}'", path_.string(), key);
}

template <class T>
std::vector<T> GgufFile::decoded(std::string_view key, const Value& value) const {
  constexpr bool is_text = std::is_same_v<T, std::string_view>, is_flag = std::is_same_v<T, bool>;
  const bool is_integer = value.type < type_f32 || value.type == type_u64 || value.type == type_i64;
  const bool is_number = is_integer || value.type == type_f32 || value.type == type_f64;
  const bool fits = is_text                      ? value.type == type_text
                    : is_flag                    ? value.type == type_bool
                    : std::is_same_v<T, int64_t> ? is_integer
                                                 : is_number;
  check(fits, "'{}': the value of '{}' is {}, expected {}", path_.string(), key,
        type_names[value.type],
        is_text                      ? "a text"
        : is_flag                    ? "a boolean"
        : std::is_same_v<T, int64_t> ? "an integer"
                                     : "a number");
  std::vector<T> result;
  result.reserve(static_cast<size_t>(value.count));
  const std::byte* at = value.content.data();
  for (uint64_t i = 0; i < value.count; ++i) {
    if constexpr (is_text) {
      const auto length = static_cast<size_t>(value_at<uint64_t>(at));
      result.emplace_back(reinterpret_cast<const char*>(at + 8), length);
      at += 8 + length;
    } else {
      switch (value.type) {
        case type_bool:
        case type_u8: result.push_back(static_cast<T>(value_at<uint8_t>(at))); break;
        case type_i8: result.push_back(static_cast<T>(value_at<int8_t>(at))); break;
        case type_u16: result.push_back(static_cast<T>(value_at<uint16_t>(at))); break;
        case type_i16: result.push_back(static_cast<T>(value_at<int16_t>(at))); break;
        case type_u32: result.push_back(static_cast<T>(value_at<uint32_t>(at))); break;
        case type_i32: result.push_back(static_cast<T>(value_at<int32_t>(at))); break;
        case type_i64: result.push_back(static_cast<T>(value_at<int64_t>(at))); break;
        case type_u64: {
          const auto number = value_at<uint64_t>(at);
          check(!std::is_same_v<T, int64_t> || number <= INT64_MAX,
                "'{}': the value of '{}' is {}, expected at most {}", path_.string(), key, number,
                INT64_MAX);
          result.push_back(static_cast<T>(number));
          break;
        }
        case type_f32: result.push_back(static_cast<T>(value_at<float>(at))); break;
        default: result.push_back(static_cast<T>(value_at<double>(at)));
      }
      at += type_bytes[value.type];
    }
  }
  return result;
}

template <class T>
std::optional<T> GgufFile::single(std::string_view key) const {
  const Value* const value = find(key);
  if (!value) return {};
  check(!value->is_array, "'{}': the value of '{}' is an array, expected a single one",
        path_.string(), key);
  return decoded<T>(key, *value).front();
}

template <class T>
std::optional<std::vector<T>> GgufFile::array(std::string_view key) const {
  const Value* const value = find(key);
  if (!value) return {};
  check(value->is_array, "'{}': the value of '{}' is {}, expected an array", path_.string(), key,
        type_names[value->type]);
  return decoded<T>(key, *value);
}

std::optional<int64_t> GgufFile::integer(std::string_view key) const {
  return single<int64_t>(key);
}
std::optional<double> GgufFile::number(std::string_view key) const { return single<double>(key); }
std::optional<bool> GgufFile::flag(std::string_view key) const { return single<bool>(key); }
std::optional<std::string_view> GgufFile::text(std::string_view key) const {
  return single<std::string_view>(key);
}
std::optional<GgufFile::Single> GgufFile::any(std::string_view key) const {
  const Value* const value = find(key);
  if (!value || value->is_array) return {};
  switch (value->type) {
    case type_text: return text(key);
    case type_bool: return flag(key);
    case type_f32:
    case type_f64: return number(key);
    default: return integer(key);
  }
}
std::optional<std::vector<int64_t>> GgufFile::integers(std::string_view key) const {
  return array<int64_t>(key);
}
std::optional<std::vector<double>> GgufFile::numbers(std::string_view key) const {
  return array<double>(key);
}
std::optional<std::vector<std::string_view>> GgufFile::texts(std::string_view key) const {
  return array<std::string_view>(key);
}

std::vector<std::string_view> GgufFile::keys() const {
  std::vector<std::string_view> result;
  for (const auto& [key, value] : values_) result.emplace_back(key);
  return result;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &tensors_[found->second];
}

const GgufTensor& GgufFile::tensor(std::string_view name) const {
  const GgufTensor* const found = find_tensor(name);
  check(found, "'{}' lacks the tensor '{}'", path_.string(), name);
  return *found;
}

}  // namespace accrue
