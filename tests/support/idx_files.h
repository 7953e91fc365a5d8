#pragma once

// IDX files, the format of MNIST.

#include <zlib.h>

#include <initializer_list>
#include <string>

#include "tests/support/catch.h"

namespace accrue::test {

inline std::string gzip(const std::string& content) {
  z_stream z{};
  REQUIRE(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(content.size() + 1000, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  z.avail_in = static_cast<uInt>(content.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

inline std::string idx(std::initializer_list<uint32_t> sizes, const std::string& elements) {
  std::string file{0, 0, 8, static_cast<char>(sizes.size())};
  for (const uint32_t size : sizes)
    for (const int shift : {24, 16, 8, 0}) file += static_cast<char>(size >> shift);
  return file + elements;
}

// n images of 2 x 3 pixels 0, 1, 2, ...
inline std::string images(uint32_t n) {
  std::string pixels;
  for (uint32_t i = 0; i < n * 6; ++i) pixels += static_cast<char>(i);
  return idx({n, 2, 3}, pixels);
}

inline std::string labels(uint32_t n) {
  std::string values;
  for (uint32_t i = 0; i < n; ++i) values += static_cast<char>(i % 10);
  return idx({n}, values);
}

}  // namespace accrue::test
