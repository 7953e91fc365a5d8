#include "data/checkpoint.h"

#include <zlib.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "data/atomic_file.h"
#include "data/byte_stream.h"
#include "data/strict_json.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int format_version = 1;
constexpr uint64_t max_record_bytes = 1 << 20;
constexpr const char* own_checksum = "crc32";

std::string hex(uLong crc) { return fmt::format("{:08x}", crc); }

std::string checksum(const std::string& text) {
  return hex(crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
}

// {"bytes": 8, "crc32": "89abcdef"}
json describe_file(const fs::path& path) {
  InputFile file(path);
  std::vector<std::byte> buffer(1 << 20);
  uLong crc = crc32_z(0, nullptr, 0);
  while (const size_t n = file.read(buffer))
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(buffer.data()), n);
  return {{"bytes", file.size()}, {own_checksum, hex(crc)}};
}

// JSON has no infinity and no NaN.
json to_json(const CounterValue& count) {
  if (const auto* integer = std::get_if<int64_t>(&count)) return *integer;
  const double value = std::get<double>(count);
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

CounterValue to_count(const std::string& name, const json& value) {
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float()) return value.get<double>();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (value == "inf") return infinity;
  if (value == "-inf") return -infinity;
  check(value == "nan", "counter '{}' is {:.80}, expected a number", name, value.dump());
  return std::nan("");
}

Metadata to_texts(const json& record, const std::string& part) {
  check(record.contains(part) && record[part].is_object(), "it has no object '{}'", part);
  Metadata texts;
  for (const auto& [name, value] : record[part].items()) {
    check(value.is_string(), "{} '{}' is {:.80}, expected a text", part, name, value.dump());
    texts[name] = value.get<std::string>();
  }
  return texts;
}

std::string read_text(const fs::path& path) {
  InputFile file(path);
  check(file.size() <= max_record_bytes, "{} bytes are above the limit of {}", file.size(),
        max_record_bytes);
  std::string text(file.size(), '\0');
  check(file.read(std::as_writable_bytes(std::span(text))) == text.size(),
        "the file shrank while it was read");
  return text;
}

// Reads the JSON, checks its own checksum and removes it.
json read_checked(const fs::path& path) {
  json record = parse_strict_json(read_text(path), 3, "it");
  check(record.is_object() && record.contains("format") && record["format"].is_string() &&
            record["format"] == "accrue checkpoint",
        "it is not the record of a checkpoint");
  check(record.contains("version") && record["version"] == format_version,
        "its format is version {:.80}; this program reads version {}",
        record.contains("version") ? record["version"].dump() : "none", format_version);
  const json stated = record.contains(own_checksum) ? record[own_checksum] : json();
  record.erase(own_checksum);
  const std::string found = checksum(record.dump());
  check(stated == found,
        "its content has the CRC-32 {}, but says {:.80}: it was damaged or changed", found,
        stated.dump());
  return record;
}

CheckpointRecord to_record(const json& record) {
  CheckpointRecord result;
  check(record.contains("counters") && record["counters"].is_object(), "it has no counters");
  for (const auto& [name, value] : record["counters"].items())
    result.counters[name] = to_count(name, value);
  result.decisive = to_texts(record, "decisive");
  result.rounding = to_texts(record, "rounding");
  result.origin = to_texts(record, "origin");
  return result;
}

// Returns the result of `read`. Every Error names the file.
template <class Read>
auto reading(const fs::path& path, Read&& read) {
  try {
    return read();
  } catch (const Unreadable&) {
    throw;
  } catch (const Error& error) {
    fail("'{}' cannot be used: {}", path.string(), error.what());
  }
}

}  // namespace

void detail::write_checkpoint(const fs::path& directory, const CheckpointRecord& record,
                              const CheckpointTensors& weights, const CheckpointTensors& state) {
  Metadata about_weights = weights.texts;
  about_weights["format"] = "pt";
  write_safetensors(directory / checkpoint_weights, weights.tensors, about_weights);
  write_safetensors(directory / checkpoint_state, state.tensors, state.texts, state.fill);
  json content{{"format", "accrue checkpoint"}, {"version", format_version},
               {"counters", json::object()},    {"decisive", record.decisive},
               {"rounding", record.rounding},   {"origin", record.origin},
               {"files", json::object()}};
  for (const auto& [name, count] : record.counters) content["counters"][name] = to_json(count);
  for (const char* file : {checkpoint_weights, checkpoint_state})
    content["files"][file] = describe_file(directory / file);
  content[own_checksum] = checksum(content.dump());
  write_text_atomically(directory / checkpoint_record, content.dump(2) + "\n");
}

CheckpointRecord detail::read_checkpoint_record(const fs::path& file) {
  return reading(file, [&] { return to_record(read_checked(file)); });
}

CheckpointRecord detail::read_checkpoint(const fs::path& directory) {
  return reading(directory, [&] {
    const json record = read_checked(directory / checkpoint_record);
    for (const char* file : {checkpoint_weights, checkpoint_state}) {
      const json found = describe_file(directory / file);
      const json stated =
          record.contains("files") && record["files"].is_object() && record["files"].contains(file)
              ? record["files"][file]
              : json();
      check(found == stated, "{} is not as it was written: expected {}, found {}", file,
            stated.dump(), found.dump());
    }
    return to_record(record);
  });
}

}  // namespace accrue
