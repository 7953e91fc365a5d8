#include "data/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <set>

#include "core/half.h"
#include "data/atomic_file.h"
#include "data/byte_stream.h"
#include "data/strict_json.h"

namespace accrue {
namespace {

using nlohmann::json;
static_assert(std::endian::native == std::endian::little, "elements are written as they lie");

constexpr const char* metadata_key = "__metadata__";
// Enough for 100,000 tensors. Parsing takes memory in proportion.
constexpr uint64_t max_header_bytes = 16 << 20;
constexpr size_t length_bytes = 8;

constexpr std::array<std::pair<DType, const char*>, 6> dtype_names{{{DType::f32, "F32"},
                                                                    {DType::f64, "F64"},
                                                                    {DType::f16, "F16"},
                                                                    {DType::bf16, "BF16"},
                                                                    {DType::i32, "I32"},
                                                                    {DType::u8, "U8"}}};

const char* format_name(DType dtype) {
  return std::ranges::find(dtype_names, dtype, &std::pair<DType, const char*>::first)->second;
}

// The header, padded with spaces to align the data after it.
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

// Calls use(first, piece) for the elements of a tensor, in order, with new tensors as pieces.
template <class Use>
void for_each_piece(const Shape& shape, DType dtype, Use&& use) {
  const int64_t whole = shape.numel(), most = int64_t(piece_bytes / size_of(dtype));
  for (int64_t first = 0; first < whole; first += most)
    use(first,
        Tensor::empty({std::min(most, whole - first)}, dtype, Device::cpu, Category::workspace));
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const Metadata& metadata, const UsePiece& fill) {
  NamedTensors sorted = tensors;
  const auto is_elsewhere = [&](const Tensor& tensor) {
    return fill && tensor.device() == Device::meta;
  };
  for (const auto& [name, tensor] : sorted)
    check(tensor.defined() && (tensor.device() == Device::cpu || is_elsewhere(tensor)),
          "cannot save tensor '{}' to '{}': it has no elements on the cpu", name, path.string());
  std::ranges::stable_sort(sorted, std::greater(),
                           [](const auto& entry) { return size_of(entry.second.dtype()); });
  const std::string header = make_header(sorted, metadata);
  const uint64_t length = header.size();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(header)));
  for (const auto& [name, tensor] : sorted)
    if (!is_elsewhere(tensor)) file.write(tensor.host_bytes());
    else
      for_each_piece(tensor.shape(), tensor.dtype(),
                     [&, &name = name](int64_t first, const Tensor& piece) {
                       fill(name, first, piece);
                       file.write(piece.host_bytes());
                     });
  file.commit();
}

namespace {

struct Entry {
  std::string name;
  DType dtype;
  Shape shape;
  uint64_t begin, end;
};

// Reads one file. Every error names it.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : file_(path) {}

  NamedTensors read(Category category, Metadata* metadata, const TensorFilter& wanted);
  void read_into(const NamedTensors& tensors, const UsePiece& use);
  SafetensorsHeader read_header_alone(const TensorFilter& wanted);
  void read_pieces(const TensorFilter& wanted, const UsePiece& use);

 private:
  template <class... Args>
  void require(bool ok, fmt::format_string<Args...> message, Args&&... args) const {
    if (!ok)
      fail("'{}' is not a valid safetensors file: {}", file_.path().string(),
           fmt::format(message, std::forward<Args>(args)...));
  }

  json read_header();
  json parse_header(uint64_t length);
  // The wanted tensors, in the order of their data.
  std::vector<Entry> entries(const json& header, const TensorFilter& wanted) const;
  void read_elements(const Entry& entry, const Tensor& to);
  void read_pieces_of(const Entry& entry, const UsePiece& use);
  Metadata read_metadata(const json& header) const;
  // The tensor's place in the data, without its dtype and shape.
  Entry place(const std::string& name, const json& value) const;
  Entry entry(const std::string& name, const json& value) const;
  DType dtype(const std::string& name, const json& value) const;
  Shape shape(const std::string& name, const json& value) const;
  void check_layout(const std::vector<Entry>& entries) const;

  InputFile file_;
  uint64_t data_bytes_ = 0;
  uint64_t position_ = 0;  // in the data
};

json Reader::read_header() {
  uint64_t length = 0;
  require(file_.size() >= length_bytes, "expected at least {} bytes, found {}", length_bytes,
          file_.size());
  file_.read(std::as_writable_bytes(std::span(&length, 1)));
  // A zip archive or a pickle that begins with PyTorch's old magic number of ten bytes.
  const uint64_t start = length & 0xffffffff;
  const bool is_pytorch = start == 0x04034b50 || start == 0x0a8a0280;
  check(!is_pytorch,
        "'{0}' is in PyTorch's own format, which only Python reads: expected safetensors, made by\n"
        "  python3 -c \"import torch, safetensors.torch as s; s.save_file(torch.load('{0}', "
        "map_location='cpu', weights_only=True), '{1}')\"",
        file_.path().string(),
        std::filesystem::path(file_.path()).replace_extension("safetensors").string());
  check(start != 0x46554747, "'{}' is GGUF: expected safetensors", file_.path().string());
  require(length <= file_.size() - length_bytes,
          "its first 8 bytes give a header of {} bytes, but only {} follow (truncated, or another "
          "format?)",
          length, file_.size() - length_bytes);
  require(length <= max_header_bytes, "a header of {} bytes is above the limit of {}", length,
          max_header_bytes);
  data_bytes_ = file_.size() - length_bytes - length;
  return reading(file_.path().string(), [&] { return parse_header(length); });
}

json Reader::parse_header(uint64_t length) {
  std::string text(length, '\0');
  require(file_.read(std::as_writable_bytes(std::span(text))) == length,
          "the file shrank while it was read");
  require(text.starts_with('{'), "the header at offset {} does not start with '{{'", length_bytes);
  try {
    return parse_strict_json(text, 3, "the header");
  } catch (const Error& error) {
    fail("'{}' is not a valid safetensors file: {}", file_.path().string(), error.what());
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
  fail("'{}': tensor '{}' has dtype {}; accrue reads F32, F64, F16, BF16, I32 and U8",
       file_.path().string(), name, text);
}

Shape Reader::shape(const std::string& name, const json& value) const {
  require(value.is_array(), "tensor '{}' has no shape", name);
  require(value.size() <= Shape::max_rank, "tensor '{}' has {} dimensions; accrue holds up to {}",
          name, value.size(), Shape::max_rank);
  // The limit is far above any file and far below overflow. A size of 0 counts as 1, so it cannot
  // hide a large factor.
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

Entry Reader::place(const std::string& name, const json& value) const {
  require(value.is_object() && value.size() == 3 && value.contains("dtype") &&
              value.contains("shape") && value.contains("data_offsets"),
          "tensor '{}': expected dtype, shape and data_offsets, found {:.80}", name, value.dump());
  const json& offsets = value["data_offsets"];
  require(offsets.is_array() && offsets.size() == 2 && offsets[0].is_number_unsigned() &&
              offsets[1].is_number_unsigned(),
          "tensor '{}': expected data_offsets [begin, end], found {:.80}", name, offsets.dump());
  const Entry e{name, DType::u8, {}, offsets[0].get<uint64_t>(), offsets[1].get<uint64_t>()};
  require(e.begin <= e.end && e.end <= data_bytes_,
          "tensor '{}': data_offsets [{}, {}] are not within the {} bytes of data (truncated?)",
          name, e.begin, e.end, data_bytes_);
  return e;
}

Entry Reader::entry(const std::string& name, const json& value) const {
  Entry e = place(name, value);
  e.dtype = dtype(name, value["dtype"]);
  e.shape = shape(name, value["shape"]);
  const uint64_t needed = static_cast<uint64_t>(e.shape.numel()) * size_of(e.dtype);
  require(e.end - e.begin == needed, "tensor '{}': {} {} takes {} bytes, but data_offsets give {}",
          name, format_name(e.dtype), e.shape, needed, e.end - e.begin);
  return e;
}

// The tensors are sorted by offset. Each must begin where the one before it ends, from the first
// byte of data to the last.
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

std::vector<Entry> Reader::entries(const json& header, const TensorFilter& wanted) const {
  std::vector<Entry> result;
  for (const auto& [name, value] : header.items())
    if (name != metadata_key)
      result.push_back(!wanted || wanted(name) ? entry(name, value) : place(name, value));
  std::ranges::sort(result, {}, [](const Entry& e) { return std::pair(e.begin, e.end); });
  check_layout(result);
  if (wanted) std::erase_if(result, [&](const Entry& e) { return !wanted(e.name); });
  return result;
}

void Reader::read_elements(const Entry& entry, const Tensor& to) {
  file_.skip(entry.begin - position_);
  require(file_.read(to.host_bytes()) == to.bytes(), "the file shrank while it was read");
  position_ = entry.end;
}

NamedTensors Reader::read(Category category, Metadata* metadata, const TensorFilter& wanted) {
  const json header = read_header();
  const Metadata texts = read_metadata(header);
  if (metadata) *metadata = texts;
  NamedTensors result;
  for (const Entry& e : entries(header, wanted)) {
    Tensor tensor = Tensor::empty(e.shape, e.dtype, Device::cpu, category);
    read_elements(e, tensor);
    result.emplace_back(e.name, std::move(tensor));
  }
  return result;
}

SafetensorsHeader Reader::read_header_alone(const TensorFilter& wanted) {
  const json header = read_header();
  SafetensorsHeader result{{}, read_metadata(header)};
  for (const Entry& e : entries(header, wanted))
    result.entries.push_back({e.name, e.dtype, e.shape});
  return result;
}

void Reader::read_pieces_of(const Entry& entry, const UsePiece& use) {
  file_.skip(entry.begin - position_);
  position_ = entry.end;
  for_each_piece(entry.shape, entry.dtype, [&](int64_t first, const Tensor& piece) {
    require(file_.read(piece.host_bytes()) == piece.bytes(), "the file shrank while it was read");
    use(entry.name, first, piece);
  });
}

void Reader::read_pieces(const TensorFilter& wanted, const UsePiece& use) {
  for (const Entry& e : entries(read_header(), wanted)) read_pieces_of(e, use);
}

void Reader::read_into(const NamedTensors& tensors, const UsePiece& use) {
  const std::map<std::string, Tensor> to(tensors.begin(), tensors.end());
  const std::vector<Entry> found = entries(read_header(), {});
  std::string problems;
  std::set<std::string> names;
  for (const Entry& e : found) {
    names.insert(e.name);
    const auto it = to.find(e.name);
    if (it == to.end()) problems += fmt::format("\n  {} {} is not wanted", e.name, e.shape);
    else if (it->second.shape() != e.shape || it->second.dtype() != e.dtype)
      problems += fmt::format("\n  {} is {} {}, expected {} {}", e.name, accrue::name(e.dtype),
                              e.shape, accrue::name(it->second.dtype()), it->second.shape());
  }
  for (const auto& [name, tensor] : to)
    if (!names.contains(name))
      problems += fmt::format("\n  {} {} is missing", name, tensor.shape());
  check(problems.empty(), "'{}' does not hold the expected tensors:{}", file_.path().string(),
        problems);
  for (const Entry& e : found) {
    const Tensor& destination = to.at(e.name);
    if (destination.device() == Device::cpu) {
      read_elements(e, destination);
    } else if (use && destination.device() == Device::meta) {
      read_pieces_of(e, use);
    } else {
      const Tensor staged = Tensor::empty(e.shape, e.dtype, Device::cpu, Category::data);
      read_elements(e, staged);
      destination.copy_from(staged);
    }
  }
}

}  // namespace

NamedTensors read_safetensors(const std::filesystem::path& path, Category category,
                              Metadata* metadata, const TensorFilter& wanted) {
  return Reader(path).read(category, metadata, wanted);
}

void detail::read_safetensors_into(const std::filesystem::path& path, const NamedTensors& tensors,
                                   const UsePiece& use) {
  Reader(path).read_into(tensors, use);
}

SafetensorsHeader detail::read_safetensors_header(const std::filesystem::path& path,
                                                  const TensorFilter& wanted) {
  return Reader(path).read_header_alone(wanted);
}

Metadata detail::read_safetensors_metadata(const std::filesystem::path& path) {
  return read_safetensors_header(path, [](const std::string&) { return false; }).metadata;
}

void detail::read_safetensors_pieces(const std::filesystem::path& path, const TensorFilter& wanted,
                                     const UsePiece& use) {
  Reader(path).read_pieces(wanted, use);
}

}  // namespace accrue
