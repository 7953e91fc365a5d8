// Sequences of parts of a tensor, of which a network takes each by its number.

#include "core/inside.h"
#include "onnx/reader/node_list.h"

namespace accrue {

bool detail::fuse_sequence(NodeList& list, size_t last) {
  const OnnxNode split = list[last];
  if (split.op != "SplitToSequence" || list.is_output(split.outputs[0])) return false;
  OnnxNode by{.op = "Parts",
              .domain = {},
              .name = split.name,
              .inputs = split.inputs,
              .outputs = {},
              .attributes = split.attributes};
  std::vector<int64_t> places;
  std::set<size_t> nodes{last};
  for (const size_t taker : list.takers(split.outputs[0])) {
    const OnnxNode& at = list[taker];
    const auto place = at.op == "SequenceAt" ? list.number(at.inputs[1]) : std::nullopt;
    if (!place) return false;
    nodes.insert(taker);
    places.push_back(int64_t(*place));
    by.outputs.push_back(at.outputs[0]);
  }
  if (places.empty()) return false;
  by.attributes["places"] = places;
  list.replace(nodes, last, std::move(by));
  return true;
}

}  // namespace accrue
