#pragma once

#include <vector>

#include "accumulate/ranks.h"
#include "core/inside.h"
#include "data/safetensors.h"
#include "optim/state_dict.h"

namespace accrue {

// Joins a state of which each rank holds a shard (StateDict::sharded) into the whole that a
// checkpoint holds. The first rank writes or reads the file, piece after piece, and then calls
// end(). Meanwhile the others run follow(), which sends or receives their parts of each piece. No
// rank ever holds a whole tensor.
class WholeState {
 public:
  // `ranks` may be null if nothing is sharded.
  WholeState(const StateDict& state, Ranks* ranks);

  // True if any tensor is sharded. If none is, end() and follow() do nothing.
  bool is_sharded() const { return !shared_.empty(); }
  // This rank's own shards.
  NamedTensors own() const;

  // For the first rank: the state's tensors. A sharded tensor is represented by one on the meta
  // device.
  NamedTensors tensors() const;
  // For writing: fills a piece of a sharded tensor with the ranks' values.
  void fill(const std::string& name, int64_t first, const Tensor& piece) const;
  // For reading: sends a piece that was read to the ranks.
  void use(const std::string& name, int64_t first, const Tensor& piece) const;
  void end() const;

  // For the other ranks: serves the first rank until it calls end().
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
