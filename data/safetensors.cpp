#include "data/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>

#include "data/atomic_file.h"
#include "data/byte_stream.h"

namespace accrue {
namespace {

using nlohmann::json;
static_assert(std::endian::native == std::endian::little, "elements are written as they lie");

constexpr const char* metadata_key = "__metadata__";
// Room for 100,000 tensors; parsing takes memory in proportion.
constexpr uint64_t max_header_bytes = 16 << 20;
constexpr size_t length_bytes = 8;

constexpr std::array<std::pair<DType, const char*>, 4> dtype_names{
    {{DType::f32, "F32"}, {DType::f64, "F64"}, {DType::i32, "I32"}, {DType::u8, "U8"}}};

const char* format_name(DType dtype) {
  return std::ranges::find(dtype_names, dtype, &std::pair<DType, const char*>::first)->second;
}

std::span<std::byte> bytes_of(const Tensor& tensor) {
  check(tensor.defined() && tensor.device() == Device::cpu,
        "only a defined tensor on the cpu has elements to read or write");
  return {static_cast<std::byte*>(tensor.view().data), tensor.bytes()};
}

// The header, padded with spaces so that the data after it is aligned.
std::string make_header(const NamedTensors& tensors, const Metadata& metadata) {
  json header = json::object();
  if (!metadata.empty()) header[metadata_key] = metadata;
  size_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    check(!name.empty() && name != metadata_key && !header.contains(name),
          "cannot save a tensor as '{}': the name is {}", name,
          header.contains(name) ? "used twice" : "not allowed");
    const size_t end = offset + tensor.bytes();
    header[name] = {
        {"dtype", format_name(tensor.dtype())},
        {"shape", std::vector(tensor.shape().sizes().begin(), tensor.shape().sizes().end())},
        {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception& error) {
    fail("a tensor's name or the metadata is not UTF-8: {}", error.what());
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const Metadata& metadata) {
  NamedTensors sorted = tensors;
  for (const auto& [name, tensor] : sorted)
    check(tensor.defined() && tensor.device() == Device::cpu,
          "cannot save tensor '{}' to '{}': it has no elements on the cpu", name, path.string());
  std::ranges::stable_sort(sorted, std::greater(),
                           [](const auto& entry) { return size_of(entry.second.dtype()); });
  const std::string header = make_header(sorted, metadata);
  const uint64_t length = header.size();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(header)));
  for (const auto& [name, tensor] : sorted) file.write(bytes_of(tensor));
  file.commit();
}

namespace {

struct Entry {
  std::string name;
  DType dtype;
  Shape shape;
  uint64_t begin, end;
};

// Reads one file; every error names it.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : file_(path) {}

  NamedTensors read(Category category, Metadata* metadata);

 private:
  template <class... Args>
  void require(bool ok, fmt::format_string<Args...> message, Args&&... args) const {
    if (!ok)
      fail("'{}' is not a valid safetensors file: {}", file_.path().string(),
           fmt::format(message, std::forward<Args>(args)...));
  }

  json read_header();
  Metadata read_metadata(const json& header) const;
  Entry entry(const std::string& name, const json& value) const;
  DType dtype(const std::string& name, const json& value) const;
  Shape shape(const std::string& name, const json& value) const;
  void check_layout(const std::vector<Entry>& entries) const;

  InputFile file_;
  uint64_t data_bytes_ = 0;
};

json Reader::read_header() {
  uint64_t length = 0;
  require(file_.size() >= length_bytes, "expected at least {} bytes, found {}", length_bytes,
          file_.size());
  file_.read(std::as_writable_bytes(std::span(&length, 1)));
  require(length <= file_.size() - length_bytes,
          "its first 8 bytes give a header of {} bytes, but only {} follow (truncated, or another "
          "format?)",
          length, file_.size() - length_bytes);
  require(length <= max_header_bytes, "a header of {} bytes is above the limit of {}", length,
          max_header_bytes);
  std::string text(length, '\0');
  require(file_.read(std::as_writable_bytes(std::span(text))) == length,
          "the file shrank while it was read");
  require(text.starts_with('{'), "the header at offset {} does not start with '{{'", length_bytes);

  // Checked while parsing, before a hostile header has become a large object.
  std::vector<std::set<std::string>> keys(4);
  const auto check_event = [&](int depth, json::parse_event_t event, json& value) {
    require(depth <= 3, "the header is nested too deeply");
    if (event == json::parse_event_t::object_start) keys[depth].clear();
    if (event == json::parse_event_t::key)
      require(keys[depth - 1].insert(value.get<std::string>()).second,
              "'{}' stands twice in the header", value.get<std::string>());
    return true;
  };
  data_bytes_ = file_.size() - length_bytes - length;
  try {
    return json::parse(text, check_event);
  } catch (const json::exception& error) {
    fail("'{}' is not a valid safetensors file: the header is not JSON: {}", file_.path().string(),
         error.what());
  }
}

Metadata Reader::read_metadata(const json& header) const {
  Metadata result;
  if (!header.contains(metadata_key)) return result;
  const json& entries = header[metadata_key];
  require(entries.is_object(), "{} is not an object", metadata_key);
  for (const auto& [name, text] : entries.items()) {
    require(text.is_string(), "{} '{}' is not a text", metadata_key, name);
    result[name] = text.get<std::string>();
  }
  return result;
}

DType Reader::dtype(const std::string& name, const json& value) const {
  require(value.is_string(), "tensor '{}' has no dtype", name);
  const std::string text = value.get<std::string>();
  for (const auto& [dtype, format] : dtype_names)
    if (text == format) return dtype;
  fail("'{}': tensor '{}' has dtype {}; accrue reads F32, F64, I32 and U8", file_.path().string(),
       name, text);
}

Shape Reader::shape(const std::string& name, const json& value) const {
  require(value.is_array(), "tensor '{}' has no shape", name);
  require(value.size() <= Shape::max_rank, "tensor '{}' has {} dimensions; accrue holds up to {}",
          name, value.size(), Shape::max_rank);
  // Far above any file, far below overflow; a size of 0 counts as 1 so that no factor hides.
  constexpr uint64_t most = uint64_t{1} << 56;
  std::vector<int64_t> sizes;
  uint64_t product = 1;
  for (const json& size : value) {
    require(size.is_number_unsigned() && size.get<uint64_t>() <= most / product,
            "the shape of tensor '{}' is {}, expected sizes that fit in memory", name,
            value.dump());
    const uint64_t n = size.get<uint64_t>();
    product *= std::max<uint64_t>(n, 1);
    sizes.push_back(static_cast<int64_t>(n));
  }
  return Shape(sizes);
}

Entry Reader::entry(const std::string& name, const json& value) const {
  require(value.is_object() && value.size() == 3 && value.contains("dtype") &&
              value.contains("shape") && value.contains("data_offsets"),
          "tensor '{}': expected dtype, shape and data_offsets, found {:.80}", name, value.dump());
  const json& offsets = value["data_offsets"];
  require(offsets.is_array() && offsets.size() == 2 && offsets[0].is_number_unsigned() &&
              offsets[1].is_number_unsigned(),
          "tensor '{}': expected data_offsets [begin, end], found {:.80}", name, offsets.dump());
  Entry e{name, dtype(name, value["dtype"]), shape(name, value["shape"]),
          offsets[0].get<uint64_t>(), offsets[1].get<uint64_t>()};
  require(e.begin <= e.end && e.end <= data_bytes_,
          "tensor '{}': data_offsets [{}, {}] are not within the {} bytes of data (truncated?)",
          name, e.begin, e.end, data_bytes_);
  const uint64_t needed = static_cast<uint64_t>(e.shape.numel()) * size_of(e.dtype);
  require(e.end - e.begin == needed, "tensor '{}': {} {} takes {} bytes, but data_offsets give {}",
          name, format_name(e.dtype), e.shape, needed, e.end - e.begin);
  return e;
}

// Sorted by offset, the tensors follow each other from the first byte of data to the last.
void Reader::check_layout(const std::vector<Entry>& entries) const {
  uint64_t end = 0;
  for (const Entry& e : entries) {
    require(e.begin >= end, "tensor '{}' at {} overlaps the one before it, which ends at {}",
            e.name, e.begin, end);
    require(e.begin == end, "bytes {} to {} of the data, before tensor '{}', belong to no tensor",
            end, e.begin, e.name);
    end = e.end;
  }
  require(end == data_bytes_, "the tensors end at byte {} of {} bytes of data", end, data_bytes_);
}

NamedTensors Reader::read(Category category, Metadata* metadata) {
  const json header = read_header();
  const Metadata texts = read_metadata(header);
  if (metadata) *metadata = texts;
  NamedTensors result;
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items())
    if (name != metadata_key) entries.push_back(entry(name, value));
  std::ranges::sort(entries, {}, [](const Entry& e) { return std::pair(e.begin, e.end); });
  check_layout(entries);
  for (const Entry& e : entries) {
    Tensor tensor = Tensor::empty(e.shape, e.dtype, Device::cpu, category);
    require(file_.read(bytes_of(tensor)) == tensor.bytes(), "the file shrank while it was read");
    result.emplace_back(e.name, std::move(tensor));
  }
  return result;
}

}  // namespace

NamedTensors read_safetensors(const std::filesystem::path& path, Category category,
                              Metadata* metadata) {
  return Reader(path).read(category, metadata);
}

}  // namespace accrue
