#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <variant>

#include "data/safetensors.h"

namespace accrue::detail {

// A checkpoint is a directory of three files:
//   weights.safetensors  parameters and module buffers, which loads in PyTorch as it is
//   state.safetensors    the other tensors that are carried from one window to the next
//   checkpoint.json      a CheckpointRecord, the version of this format, size and CRC-32 of the two
//                        other files, and the CRC-32 of its own content without that number (as
//                        compact JSON with sorted names)
using CounterValue = std::variant<int64_t, double>;
struct CheckpointRecord {
  std::map<std::string, CounterValue> counters;  // any double, infinity and NaN included
  Metadata decisive;  // settings that decide the result beyond rounding: text by option
  Metadata rounding;  // settings that decide how sums are rounded
  Metadata origin;    // who wrote it, and how the run was started: for people
};

inline constexpr const char* checkpoint_weights = "weights.safetensors";
inline constexpr const char* checkpoint_state = "state.safetensors";
inline constexpr const char* checkpoint_record = "checkpoint.json";

// Tensors on the cpu, the metadata of their file, and what sets the elements of those on the meta
// device instead (write_safetensors()).
struct CheckpointTensors {
  NamedTensors tensors;
  Metadata texts;
  UsePiece fill{};
};

// Writes the three files, each synchronised with the disk, into an existing directory. Throws Error
// as AtomicFile does.
void write_checkpoint(const std::filesystem::path& directory, const CheckpointRecord& record,
                      const CheckpointTensors& weights, const CheckpointTensors& state);

// Reads the record and checks the two other files against it. Throws Error for a file that is
// missing, of another size or content than was written, or of another format's version, and
// Unreadable for one that the system does not let us read.
CheckpointRecord read_checkpoint(const std::filesystem::path& directory);

// Reads a checkpoint.json. Throws Error for a file that is not one, or was changed.
CheckpointRecord read_checkpoint_record(const std::filesystem::path& file);

}  // namespace accrue::detail
