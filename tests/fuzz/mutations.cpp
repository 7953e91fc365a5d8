// Mutated files, from the corpus and a seed: each is read or refused with an Error, and no
// allocation is larger than what such a file can hold, plus a constant. The program prints the seed
// and what it found, and fails where that does not hold.
//   accrue_mutations [files [seed]]

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>

#include "core/error.h"
#include "core/memory.h"
#include "core/random.h"
#include "tests/fuzz/parsers.h"

namespace {

// The largest allocation by operator new since this was last set to 0. The ledger counts tensors'
// memory.
size_t largest_allocation = 0;

}  // namespace

void* operator new(size_t size, const std::nothrow_t&) noexcept {
  largest_allocation = std::max(largest_allocation, size);
  return std::malloc(size);
}
void* operator new(size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace accrue::fuzz {
namespace {

namespace fs = std::filesystem;

// For the reader's buffer of 64 KiB, small strings, trees of JSON, and the alignment of tensors.
constexpr size_t constant_bytes = 128 << 10;

std::vector<Bytes> corpus_of(const std::string& name) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(fs::path(ACCRUE_FUZZ_CORPUS) / name))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> files;
  for (const fs::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    const auto bytes = std::as_bytes(std::span(text));
    files.emplace_back(bytes.begin(), bytes.end());
  }
  check(!files.empty(), "no corpus of {}", name);
  return files;
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  Bytes mutate(const std::vector<Bytes>& corpus) {
    Bytes file = corpus[below(corpus.size())];
    for (size_t i = below(6) + 1; i > 0; --i) mutate_once(file, corpus);
    return file;
  }
  bool one_in(size_t n) { return below(n) == 0; }

 private:
  size_t below(size_t n) { return n == 0 ? 0 : random_.below(static_cast<uint32_t>(n)); }

  void insert(Bytes& file, size_t at, std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    file.insert(file.begin() + static_cast<ptrdiff_t>(at), bytes.begin(), bytes.end());
  }

  void mutate_once(Bytes& file, const std::vector<Bytes>& corpus) {
    const size_t at = below(file.size()), length = below(std::min<size_t>(64, file.size() - at));
    const auto begin = file.begin() + static_cast<ptrdiff_t>(at);
    const auto end = begin + static_cast<ptrdiff_t>(length);
    // Values that often break sizes, and JSON's punctuation.
    static const std::vector<std::string> pieces{std::string(4, '\0'),
                                                 std::string(8, '\xff'),
                                                 "\x7f\xff\xff\xff",
                                                 std::string("\0\1\0\0", 4),
                                                 "18446744073709551615",
                                                 "-1",
                                                 "1e999",
                                                 "0",
                                                 "[",
                                                 "{",
                                                 "\"",
                                                 ",",
                                                 "]",
                                                 "}",
                                                 "null",
                                                 "\\u0000",
                                                 "\xc3",
                                                 "9223372036854775807"};
    switch (below(7)) {
      case 0:
        if (!file.empty()) file[at] ^= std::byte(1u << below(8));
        break;
      case 1:
        if (!file.empty()) file[at] = std::byte(below(256));
        break;
      case 2: file.erase(begin, end); break;
      case 3: file.resize(at); break;
      case 4: insert(file, at, pieces[below(pieces.size())]); break;
      case 5: {
        const Bytes part(begin, end);
        file.insert(file.begin() + static_cast<ptrdiff_t>(below(file.size())), part.begin(),
                    part.end());
        break;
      }
      default: {  // the rest of another file
        const Bytes& other = corpus[below(corpus.size())];
        const auto from = other.begin() + static_cast<ptrdiff_t>(below(other.size()));
        file.resize(at);
        file.insert(file.end(), from, other.end());
      }
    }
  }

  RandomStream random_;
};

struct Tally {
  int64_t files = 0, refused = 0;
  size_t largest_beyond = 0;  // the largest allocation less what the file can hold
};

void run(const Parser& parser, const Bytes& file, Tally& tally) {
  Ledger& cpu = ledger(Device::cpu);
  cpu.reset_peak();
  largest_allocation = 0;
  ++tally.files;
  try {
    parser.parse(file);
  } catch (const Error& error) {
    ++tally.refused;
    check(std::string_view(error.what()).size() > 10, "an error that says nothing");
  }
  const size_t largest = std::max(largest_allocation, cpu.peak().total());
  const size_t allowed = parser.content(file);
  if (largest > allowed) tally.largest_beyond = std::max(tally.largest_beyond, largest - allowed);
}

int main(int64_t files, uint64_t seed) {
  fmt::print("{} mutated files, seed {}\n", files, seed);
  const auto count = static_cast<int64_t>(parsers().size());
  for (int64_t p = 0; p < count; ++p) {
    const Parser& parser = parsers()[static_cast<size_t>(p)];
    const std::vector<Bytes> corpus = corpus_of(parser.name);
    Mutator mutator(seed + static_cast<uint64_t>(p));
    Tally tally;
    for (const Bytes& file : corpus) parser.parse(file);  // whole: not refused
    for (int64_t i = files * p / count; i < files * (p + 1) / count; ++i) {
      Bytes file = mutator.mutate(corpus);
      if (parser.name == "checkpoint" && !mutator.one_in(4)) file = with_right_checksum(file);
      if (parser.name == "idx" && mutator.one_in(2)) file = gzip(file);
      if ((parser.name == "png" || parser.name == "masks") && !mutator.one_in(4))
        file = with_right_crcs(file);
      run(parser, file, tally);
    }
    fmt::print(
        "{}: {} files, {} refused, {} still whole; no allocation more than {} bytes above "
        "what the file can hold\n",
        parser.name, tally.files, tally.refused, tally.files - tally.refused, tally.largest_beyond);
    check(tally.largest_beyond <= constant_bytes, "expected at most {} bytes", constant_bytes);
  }
  return 0;
}

}  // namespace
}  // namespace accrue::fuzz

int main(int argc, char** argv) {
  try {
    return accrue::fuzz::main(argc > 1 ? std::atoll(argv[1]) : 10'000,
                              argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
