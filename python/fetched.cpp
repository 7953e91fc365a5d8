#include "python/fetched.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "data/record_file.h"
#include "data/samples.h"
#include "kernels/judged.h"
#include "python/interrupts.h"

namespace accrue::python {
namespace {

// The epoch for which a thread reads a sample, and its seed. Samples to score have none.
struct Draw {
  uint64_t seed = 0;
  int64_t epoch = -1;
};
thread_local Draw draw_here;

// How the field of a row stores its elements.
struct RowOf {
  std::string what;
  DType dtype;
  Encoding encoding;
  int64_t classes;
  bool has_not_judged;
};

void write_indices(std::span<std::byte> row, const Array& array, const RowOf& of, int64_t sample) {
  with_integers(array, [&](auto elements) {
    auto to = detail::elements_of<int32_t>(row).begin();
    for (const auto element : elements) {
      const bool is_left_out = of.has_not_judged && std::cmp_equal(element, torch_ignored);
      check(is_left_out || (std::cmp_greater_equal(element, 0) &&
                            std::cmp_less(element, std::max<int64_t>(of.classes, 1))),
            "{} of sample {} has {}: expected 0 to {}{}", of.what, sample, element, of.classes - 1,
            std::cmp_equal(element, torch_ignored)
                ? ", because no sample that was looked at before has it; give y as an array"
                : "");
      *to++ = is_left_out ? not_judged : static_cast<int32_t>(element);
    }
    return 0;
  });
}

template <class From, class To>
void write_converted(std::span<std::byte> row, const Array& array) {
  const auto* const x = static_cast<const From*>(array.data());
  const auto to = detail::elements_of<To>(row);
  std::transform(x, x + to.size(), to.begin(), [](From v) { return static_cast<To>(v); });
}

// Part.fetch() gives each sample in the type of the first one.
void write_row(std::span<std::byte> row, const Array& array, const RowOf& of, int64_t sample) {
  using enum nb::dlpack::dtype_code;
  const nb::dlpack::dtype type = array.dtype();
  check(array.size() * size_of(of.dtype) == row.size(), "{} of sample {} is {}: expected {} bytes",
        of.what, sample, described(array), row.size());
  if (of.encoding == Encoding::index) return write_indices(row, array, of, sample);
  if (is_truth(array)) {
    const auto* const is_there = static_cast<const bool*>(array.data());
    std::transform(is_there, is_there + array.size(), row.begin(),
                   [](bool is) { return is ? std::byte{255} : std::byte{0}; });
    return;
  }
  if (type.bits == 16 && type.code == uint8_t(Float))
    return write_converted<Half, float>(row, array);
  if (type.code == uint8_t(Bfloat)) return write_converted<BFloat16, float>(row, array);
  check(type.bits / 8U == size_of(of.dtype), "{} of sample {} is {}: expected {}", of.what, sample,
        described(array), name(of.dtype));
  std::memcpy(row.data(), array.data(), row.size());
}

// Reads samples by calling Part.fetch(index, seed, epoch).
detail::ReadRow by_calling(nb::handle part, RowOf of) {
  return [fetch = kept_by_python(nb::object(part.attr("fetch"))), of = std::move(of)](
             std::span<std::byte> row, int64_t sample) {
    const InFetch in_fetch;
    const nb::gil_scoped_acquire gil;
    const nb::object fetched = (*fetch)(sample, draw_here.seed, draw_here.epoch);
    Array array;
    check(nb::try_cast(fetched, array), "{} of sample {} is no array of numbers", of.what, sample);
    write_row(row, array, of, sample);
  };
}

// Rows of a file that NumPy has mapped: read from the file, so that its pages do not count as
// memory of the process, or where the file is no longer the one that was mapped, from the mapping.
class MappedRows {
 public:
  MappedRows(nb::handle array, const std::string& path, int64_t offset, size_t row_bytes)
      : offset_(offset), row_bytes_(static_cast<ssize_t>(row_bytes)) {
    const auto view = nb::cast<nb::ndarray<nb::ro>>(array);
    mapped_ = static_cast<const std::byte*>(view.data());
    stride_ = view.stride(0) * int64_t(view.itemsize());
    keeps_ = kept_by_python(nb::borrow(array));
    if (path.empty()) return;
    file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    std::vector<std::byte> row(row_bytes);
    for (const int64_t n : {int64_t{0}, int64_t(view.shape(0)) - 1})
      if (file_ >= 0 && !(read_from_file(row, n) &&
                          std::memcmp(row.data(), mapped_ + n * stride_, row_bytes) == 0)) {
        ::close(file_);
        file_ = -1;
      }
  }
  ~MappedRows() {
    if (file_ >= 0) ::close(file_);
  }
  MappedRows(const MappedRows&) = delete;
  MappedRows& operator=(const MappedRows&) = delete;

  void read(std::span<std::byte> row, int64_t n) const {
    if (file_ < 0) std::memcpy(row.data(), mapped_ + n * stride_, row.size());
    else check(read_from_file(row, n), "sample {} cannot be read from its file: it has shrunk", n);
  }

 private:
  bool read_from_file(std::span<std::byte> row, int64_t n) const {
    ssize_t had = 0;
    while (had < row_bytes_) {
      const ssize_t got = ::pread(file_, row.data() + had, static_cast<size_t>(row_bytes_ - had),
                                  offset_ + n * stride_ + had);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      had += got;
    }
    return true;
  }

  const int64_t offset_;
  const ssize_t row_bytes_;
  int file_ = -1;
  const std::byte* mapped_;
  int64_t stride_;
  std::shared_ptr<const nb::object> keeps_;
};

bool has_fetched(const Dataset& data) {
  return std::ranges::any_of(data.fields, [](const Field& field) { return bool(field.read); });
}

}  // namespace

bool is_fetched(nb::handle object) { return nb::hasattr(object, "_accrue_part"); }

std::string name_of_given(std::initializer_list<nb::handle> parts) {
  for (const nb::handle part : parts)
    if (const nb::object name = nb::getattr(part, "given", nb::none());
        is_fetched(part) && !name.is_none())
      return nb::cast<std::string>(name);
  return "arrays";
}

Field field_in(nb::handle given, const std::string& what,
               const std::function<Field(const Array&)>& make) {
  if (!is_fetched(given)) return make(as_array(given, what.c_str()));
  Field field = make(as_array(nb::object(given.attr("first")), what.c_str()));
  const auto N = nb::cast<int64_t>(given.attr("length"));
  const size_t row_bytes = field.values.bytes();
  field.values =
      Tensor::without_elements(field.values.shape().with(0, N), field.values.dtype(), Device::cpu);
  if (field.encoding == Encoding::index) {
    const auto [classes, has_not_judged] =
        nb::cast<std::pair<int64_t, bool>>(given.attr("classes")());
    field.classes = classes;
    field.has_not_judged = has_not_judged;
  }
  // Indices are stored in a type of their own, and each is checked.
  if (const nb::object file = given.attr("file");
      !file.is_none() && field.encoding != Encoding::index) {
    const auto rows = std::make_shared<MappedRows>(
        nb::object(file[0]), nb::cast<std::string>(file[1]), nb::cast<int64_t>(file[2]), row_bytes);
    field.read = [rows](std::span<std::byte> row, int64_t n) { rows->read(row, n); };
    return field;
  }
  field.read = by_calling(
      given, {what, field.values.dtype(), field.encoding, field.classes, field.has_not_judged});
  return field;
}

void sign_fetched(Dataset& data) {
  if (!has_fetched(data)) return;
  data.checksum = [fields = data.fields]() -> uint32_t {
    constexpr int64_t most = 64;
    std::string bytes;
    for (const Field& field : fields) {
      const int64_t N = field.values.size(0), n = std::min(N, most);
      std::string row(field.values.bytes() / static_cast<size_t>(std::max<int64_t>(N, 1)), '\0');
      for (int64_t i = 0; i < n; ++i) {
        detail::read_row(std::as_writable_bytes(std::span(row)), field, i * N / n);
        bytes = std::to_string(crc32c(bytes + row));
      }
    }
    return crc32c(bytes);
  };
}

void tell_draws(Dataset& data) {
  if (!has_fetched(data)) return;
  data.augmentation = [others = data.augmentation](uint64_t seed, int64_t epoch, int64_t sample) {
    draw_here = {seed, epoch};
    return others ? others(seed, epoch, sample) : detail::SampleChange{};
  };
}

}  // namespace accrue::python
