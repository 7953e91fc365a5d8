#include "data/mapped_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "data/byte_stream.h"

namespace accrue {

MappedFile::MappedFile(const std::filesystem::path& path) {
  const InputFile file(path);
  const auto size = static_cast<size_t>(file.size());
  void* const begin = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (begin == MAP_FAILED)
    throw Unreadable(
        fmt::format("cannot map '{}' into memory: {}", path.string(), std::strerror(errno)));
  bytes_ = {static_cast<const std::byte*>(begin), size};
}

MappedFile::~MappedFile() { ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size()); }

}  // namespace accrue
