// ONNX files whose structure was changed (tests/fuzz/small_networks.h): each is refused with an
// Error, or is a network of which micro-batches are planned on the meta device. The program prints
// the seed and what it found, and fails where that does not hold, or where a file takes long.
//   accrue_network_mutations [files [seed]]
// File i of a seed is file 0 of seed + i. A crash leaves the file, named after that, in the
// directory of temporary files.

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "core/inside.h"
#include "kernels/losses.h"
#include "onnx/reader/network.h"
#include "tests/fuzz/small_networks.h"
#include "tests/support/files.h"

namespace accrue::fuzz {
namespace {

namespace fs = std::filesystem;

// Sizes of samples for inputs that leave them free.
OnnxReading reading_of(const OnnxFile& file) {
  OnnxReading reading;
  for (const OnnxValueInfo& input : file.inputs) {
    std::vector<int64_t> sizes;
    bool is_free = false;
    for (size_t i = 1; i < input.sizes.size(); ++i) {
      const auto* const number = std::get_if<int64_t>(&input.sizes[i]);
      is_free |= number == nullptr;
      sizes.push_back(number ? *number : 4);
    }
    if (is_free && sizes.size() <= Shape::max_rank) reading.samples[input.name] = Shape(sizes);
  }
  return reading;
}

// The micro-batches of a window, forward and backward.
void plan(const OnnxNetwork& network) {
  const auto model = network.make();
  const Parameters parameters = place(*model, DType::f32, Device::meta, 1);
  network.load(parameters);
  for (const int64_t samples : {3, 1}) {
    std::vector<Tensor> inputs;
    for (const OnnxNetwork::Input& input : network.inputs()) {
      std::vector<int64_t> sizes{samples};
      for (const auto& size : input.sizes) sizes.push_back(*size);
      inputs.push_back(Tensor::empty(Shape(sizes), input.dtype, Device::meta, Category::data));
    }
    const Tensor ids = Tensor::empty({samples}, DType::i32, Device::meta, Category::data);
    for (const Tensor& y : model->run(std::move(inputs), {.samples = ids}))
      if (y.variable()) {
        backward(mse_loss(y, Tensor::full(y.shape(), 1, y.dtype(), Device::meta)));
        break;
      }
  }
}

// Throws Error unless the file is a network.
void read_network(const fs::path& path) {
  const auto file = OnnxFile::read(path);
  const OnnxNetwork network(file, reading_of(*file));
  network.calls();
  plan(network);
}

int main(int64_t files, uint64_t seed) {
  fmt::print("{} files of ONNX, changed in structure, seed {}\n", files, seed);
  const test::TemporaryDirectory directory;
  for (const SmallNetwork& net : small_networks())  // as they are: not refused
    read_network(directory.write("net.onnx", net.bytes()));
  int64_t refused = 0;
  double longest = 0;
  for (int64_t i = 0; i < files; ++i) {
    RandomStream random(seed + uint64_t(i));
    const fs::path path = directory.write(fmt::format("{}.onnx", seed + uint64_t(i)),
                                          changed_network(random).bytes());
    const auto start = std::chrono::steady_clock::now();
    try {
      read_network(path);
    } catch (const Error& error) {
      ++refused;
      check(std::string_view(error.what()).size() > 10, "seed {}: an error that says nothing",
            seed + uint64_t(i));
    } catch (const std::exception& error) {
      fail("seed {}: {}: expected an Error", seed + uint64_t(i), error.what());
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    longest = std::max(longest, took.count());
    check(took.count() < 20, "seed {}: it took {:.0f} s", seed + uint64_t(i), took.count());
    fs::remove(path);
  }
  fmt::print("{} refused, {} read; the longest took {:.2f} s\n", refused, files - refused, longest);
  return 0;
}

}  // namespace
}  // namespace accrue::fuzz

int main(int argc, char** argv) {
  try {
    return accrue::fuzz::main(argc > 1 ? std::atoll(argv[1]) : 900,
                              argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
