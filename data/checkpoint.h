#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <variant>

#include "data/safetensors.h"

namespace accrue::detail {

// A checkpoint is a directory of three files.
//   weights.safetensors  parameters and module buffers, which PyTorch loads as they are
//   state.safetensors    the other tensors that pass from one window to the next
//   checkpoint.json      a CheckpointRecord, the version of this format, the size and CRC-32 of
//                        the two other files, and the CRC-32 of its own content without that
//                        number (as compact JSON with sorted names)
using CounterValue = std::variant<int64_t, double>;
struct CheckpointRecord {
  std::map<std::string, CounterValue> counters;  // any double, infinity and NaN included
  Metadata decisive;  // settings that decide the result beyond rounding: option to text
  Metadata rounding;  // settings that decide how sums are rounded
  Metadata origin;    // for people: who wrote it, and how the run was started
};

inline constexpr const char* checkpoint_weights = "weights.safetensors";
inline constexpr const char* checkpoint_state = "state.safetensors";
inline constexpr const char* checkpoint_record = "checkpoint.json";

// The tensors of one file and its metadata. Tensors lie on the cpu, or on the meta device if `fill`
// provides their elements (write_safetensors()).
struct CheckpointTensors {
  NamedTensors tensors;
  Metadata texts;
  UsePiece fill{};
};

// Writes the three files into an existing directory and synchronizes each with the disk. Throws
// Error as AtomicFile does.
void write_checkpoint(const std::filesystem::path& directory, const CheckpointRecord& record,
                      const CheckpointTensors& weights, const CheckpointTensors& state);

// Reads the record and checks the two other files against it. Throws Error for a missing file, for
// a file whose size or content is not as written, and for another version of the format. Throws
// Unreadable for a file that the system does not let us read.
CheckpointRecord read_checkpoint(const std::filesystem::path& directory);

// Reads a checkpoint.json. Throws Error for any other file, and for one that was changed.
CheckpointRecord read_checkpoint_record(const std::filesystem::path& file);

}  // namespace accrue::detail
