#include "text/merges.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "core/error.h"
#include "core/inside.h"

namespace accrue {
namespace {

// Up to this number of tokens, searching all pairs costs less than a heap.
constexpr size_t few_tokens = 64;

uint64_t pair_of(int32_t left, int32_t right) {
  return uint64_t(uint32_t(left)) << 32 | uint32_t(right);
}

std::vector<Merges::Ranked> in_order(const std::vector<Merges::Merge>& ordered) {
  std::vector<Merges::Ranked> ranked;
  ranked.reserve(ordered.size());
  for (const Merges::Merge& merge : ordered)
    ranked.push_back({merge, static_cast<uint32_t>(ranked.size())});
  return ranked;
}

}  // namespace

Merges::Merges(const std::vector<Merge>& ordered) : Merges(in_order(ordered)) {}

Merges::Merges(const std::vector<Ranked>& ranked)
    : table_(std::bit_ceil(2 * ranked.size() + 2)), shift_(64 - std::countr_zero(table_.size())) {
  for (const auto& [merge, rank] : ranked) {
    const uint64_t pair = pair_of(merge.left, merge.right);
    table_[place_of(pair)] = {pair, rank, merge.merged};
  }
}

// The place of the pair, or the free place where it would be.
size_t Merges::place_of(uint64_t pair) const {
  size_t place = pair * 0x9e3779b97f4a7c15u >> shift_;
  while (table_[place].pair != pair && table_[place].pair != no_pair)
    place = (place + 1) & (table_.size() - 1);
  return place;
}

const Merges::Place& Merges::at(int32_t left, int32_t right) const {
  return table_[place_of(pair_of(left, right))];
}

void Merges::apply(std::vector<int32_t>& tokens, Scratch& scratch) const {
  if (tokens.size() <= few_tokens) return apply_to_few(tokens, scratch);
  check(tokens.size() < size_t{INT32_MAX}, "a word of {} bytes: at most {} can be encoded",
        tokens.size(), INT32_MAX - 1);
  apply_to_many(tokens, scratch);
}

void Merges::apply_to_few(std::vector<int32_t>& tokens, Scratch& scratch) const {
  if (tokens.size() < 2) return;
  auto& ranks = scratch.ranks;
  ranks.resize(tokens.size() - 1);
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = at(tokens[i], tokens[i + 1]).rank;
  while (!ranks.empty()) {
    const auto first = std::ranges::min_element(ranks);
    if (*first == none) return;
    const auto place = first - ranks.begin();
    const auto i = size_t(place);
    tokens[i] = at(tokens[i], tokens[i + 1]).merged;
    tokens.erase(tokens.begin() + place + 1);
    ranks.erase(first);
    if (i > 0) ranks[i - 1] = at(tokens[i - 1], tokens[i]).rank;
    if (i < ranks.size()) ranks[i] = at(tokens[i], tokens[i + 1]).rank;
  }
}

// A token that was merged into its predecessor keeps its place, but loses its rank and leaves the
// list. A heap entry consists of a rank and the place of a pair's first token. It is outdated if
// that pair has another rank by now.
void Merges::apply_to_many(std::vector<int32_t>& tokens, Scratch& scratch) const {
  const auto n = static_cast<int32_t>(tokens.size());
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  symbols.resize(tokens.size());
  heap.clear();
  const auto entry = [&](int32_t i) {
    return uint64_t{symbols[size_t(i)].rank} << 32 | uint32_t(i);
  };
  const auto rank_from = [&](int32_t i) {
    auto& symbol = symbols[size_t(i)];
    symbol.rank = symbol.next < n ? at(tokens[size_t(i)], tokens[size_t(symbol.next)]).rank : none;
    return symbol.rank != none;
  };
  for (int32_t i = 0; i < n; ++i) symbols[size_t(i)] = {i - 1, i + 1, none};
  for (int32_t i = 0; i < n; ++i)
    if (rank_from(i)) heap.push_back(entry(i));
  const std::greater<> later;
  std::ranges::make_heap(heap, later);
  const auto push = [&](int32_t i) {
    heap.push_back(entry(i));
    std::ranges::push_heap(heap, later);
  };
  while (!heap.empty()) {
    std::ranges::pop_heap(heap, later);
    const uint64_t top = heap.back();
    heap.pop_back();
    const auto i = static_cast<int32_t>(top & UINT32_MAX);
    auto& symbol = symbols[size_t(i)];
    if (symbol.rank != top >> 32) continue;
    tokens[size_t(i)] = at(tokens[size_t(i)], tokens[size_t(symbol.next)]).merged;
    symbols[size_t(symbol.next)].rank = none;
    symbol.next = symbols[size_t(symbol.next)].next;
    if (symbol.next < n) symbols[size_t(symbol.next)].before = i;
    if (rank_from(i)) push(i);
    if (symbol.before >= 0 && rank_from(symbol.before)) push(symbol.before);
  }
  size_t kept = 0;
  for (int32_t i = 0; i < n; i = symbols[size_t(i)].next) tokens[kept++] = tokens[size_t(i)];
  tokens.resize(kept);
}

}  // namespace accrue
