#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace accrue {

// A cache for the tokens of recent short words. The hash of a word determines its slot.
class WordCache {
 public:
  WordCache() : slots_(size_t{1} << slot_bits) {}

  static uint64_t hash(std::string_view word) {
    uint64_t sum = word.size(), part = 0;
    for (; word.size() > sizeof part; word.remove_prefix(sizeof part)) {
      std::memcpy(&part, word.data(), sizeof part);
      sum = mix(sum ^ part);
    }
    part = 0;
    std::memcpy(&part, word.data(), word.size());
    return mix(sum ^ part);
  }

  std::optional<std::span<const int32_t>> find(std::string_view word, uint64_t hash) const {
    const Slot& slot = slots_[hash >> (64 - slot_bits)];
    if (slot.bytes != word.size() || std::memcmp(slot.word.data(), word.data(), word.size()) != 0)
      return std::nullopt;
    return std::span(slot.tokens).first(slot.count);
  }

  // Replaces the previous word of the slot.
  void keep(std::string_view word, uint64_t hash, std::span<const int32_t> tokens) {
    Slot& slot = slots_[hash >> (64 - slot_bits)];
    if (word.size() > slot.word.size() || tokens.size() > slot.tokens.size()) return;
    slot.bytes = static_cast<uint8_t>(word.size());
    slot.count = static_cast<uint8_t>(tokens.size());
    std::ranges::copy(word, slot.word.begin());
    std::ranges::copy(tokens, slot.tokens.begin());
  }

 private:
  static constexpr int slot_bits = 15;
  // A slot fills one cache line of the processor. It is free if `bytes` is 0, because no word is
  // empty.
  struct alignas(64) Slot {
    uint8_t bytes = 0, count = 0;
    std::array<char, 30> word;
    std::array<int32_t, 8> tokens;
  };
  static uint64_t mix(uint64_t value) {
    value *= 0x9e3779b97f4a7c15u;
    return value ^ value >> 32;
  }

  std::vector<Slot> slots_;
};

// A pool of buffers that no call uses. They are kept for later calls because a filled cache is more
// useful than an empty one.
template <class Buffers>
class Idle {
 public:
  std::unique_ptr<Buffers> take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<Buffers>();
    auto taken = std::move(idle_.back());
    idle_.pop_back();
    return taken;
  }
  void give_back(std::unique_ptr<Buffers> buffers) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(buffers));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Buffers>> idle_;
};

}  // namespace accrue
