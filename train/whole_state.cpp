#include "train/whole_state.h"

#include <algorithm>

namespace accrue {

WholeState::WholeState(const StateDict& state, Ranks* ranks)
    : tensors_(state.tensors), ranks_(ranks) {
  for (const auto& [name, tensor] : state.tensors)
    if (const auto found = state.sharded.find(name); found != state.sharded.end())
      shared_.push_back({name, tensor, {found->second, ranks->count()}});
}

NamedTensors WholeState::own() const {
  NamedTensors shards;
  for (const Shared& shared : shared_) shards.emplace_back(shared.name, shared.own);
  return shards;
}

NamedTensors WholeState::tensors() const {
  NamedTensors whole = tensors_;
  for (const Shared& shared : shared_)
    std::ranges::find(whole, shared.name, &NamedTensors::value_type::first)->second = Tensor::empty(
        {shared.shards.elements}, shared.own.dtype(), Device::meta, Category::optimizer);
  return whole;
}

void WholeState::fill(const std::string& name, int64_t first, const Tensor& piece) const {
  answer(ask(Request::Kind::fill, name, first, piece), piece);
}

void WholeState::use(const std::string& name, int64_t first, const Tensor& piece) const {
  answer(ask(Request::Kind::use, name, first, piece), piece);
}

void WholeState::end() const {
  Request last{Request::Kind::end, 0, 0, 0};
  if (is_sharded()) ranks_->broadcast(&last, sizeof last, 0);
}

void WholeState::follow() const {
  if (!is_sharded()) return;
  for (Request request;;) {
    ranks_->broadcast(&request, sizeof request, 0);
    if (request.kind == Request::Kind::end) return;
    const DType dtype = shared_[size_t(request.shared)].own.dtype();
    answer(request, Tensor::empty({request.n}, dtype, Device::cpu, Category::workspace));
  }
}

WholeState::Request WholeState::ask(Request::Kind kind, const std::string& name, int64_t first,
                                    const Tensor& piece) const {
  const auto shared = std::ranges::find(shared_, name, &Shared::name);
  Request request{kind, shared - shared_.begin(), first, piece.numel()};
  ranks_->broadcast(&request, sizeof request, 0);
  return request;
}

void WholeState::answer(const Request& request, const Tensor& piece) const {
  const auto& [name, own, shards] = shared_[size_t(request.shared)];
  const bool reads = request.kind == Request::Kind::use;
  if (reads) ranks_->broadcast(piece.view().data, piece.bytes(), 0);
  for (int r = 0; r < shards.count; ++r) {
    const auto [begin, end] = shards.of(r);
    const int64_t from = std::max(begin, request.first),
                  to = std::min(end, request.first + request.n);
    if (from >= to) continue;
    const Tensor part = piece.slice(from - request.first, to - request.first);
    const bool mine = r == ranks_->rank();
    if (mine && reads) own.slice(from - begin, to - begin).copy_from(part);
    if (mine && !reads) part.copy_from(own.slice(from - begin, to - begin));
    if (!reads && r > 0) ranks_->broadcast(part.view().data, part.bytes(), r);
  }
}

}  // namespace accrue
