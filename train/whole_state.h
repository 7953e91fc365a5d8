#pragma once

#include <vector>

#include "accumulate/ranks.h"
#include "core/inside.h"
#include "data/safetensors.h"
#include "optim/state_dict.h"

namespace accrue {

// A state of which each rank has its shard (StateDict::sharded), as the whole that a checkpoint
// holds. The first rank writes or reads the file, piece after piece, and ends; meanwhile the others
// follow, and have or get what is theirs of each piece. Nobody ever holds a whole tensor.
class WholeState {
 public:
  // `ranks` may be null if nothing is sharded.
  WholeState(const StateDict& state, Ranks* ranks);

  // True if a tensor is sharded. If none is, end() and follow() do nothing.
  bool is_sharded() const { return !shared_.empty(); }
  // This rank's own shards.
  NamedTensors own() const;

  // For the first rank. The state's tensors, with one on the meta device for each that is sharded.
  NamedTensors tensors() const;
  // Sets a piece of a sharded tensor to what the ranks have, to be written.
  void fill(const std::string& name, int64_t first, const Tensor& piece) const;
  // Gives a piece that was read to the ranks.
  void use(const std::string& name, int64_t first, const Tensor& piece) const;
  void end() const;

  // For the others: until the first rank ends.
  void follow() const;

 private:
  struct Shared {
    std::string name;
    Tensor own;
    Shards shards;
  };
  // A piece that the first rank fills or uses.
  struct Request {
    enum class Kind : int64_t { fill, use, end } kind;
    int64_t shared, first, n;
  };

  Request ask(Request::Kind kind, const std::string& name, int64_t first,
              const Tensor& piece) const;
  void answer(const Request& request, const Tensor& piece) const;

  const NamedTensors tensors_;
  std::vector<Shared> shared_;
  Ranks* const ranks_;
};

}  // namespace accrue
