#include "data/lines.h"

#include <algorithm>
#include <span>

namespace accrue {

bool Lines::next(std::string& line) {
  line.clear();
  for (;;) {
    if (used_ == size_) {
      size_ = stream_.read(std::as_writable_bytes(std::span(buffer_)));
      used_ = 0;
      if (size_ == 0) break;
    }
    const char *const from = buffer_.data() + used_, *const to = buffer_.data() + size_,
                      *const stop = std::find(from, to, '\n');
    line.append(from, stop);
    used_ = static_cast<size_t>(stop - buffer_.data());
    if (stop == to) continue;
    ++used_;
    end(line);
    return true;
  }
  end(line);
  return !line.empty();
}

std::string Lines::here() const {
  return fmt::format("'{}', line {}", stream_.path().string(), number_);
}

void Lines::end(std::string& line) {
  if (line.ends_with('\r')) line.pop_back();
  if (++number_ == 1) take_utf8_mark(line, stream_.path());
}

void take_utf8_mark(std::string& text, const std::filesystem::path& path) {
  constexpr std::string_view mark = "\xef\xbb\xbf";
  if (text.starts_with(mark)) text.erase(0, mark.size());
  check(
      !text.starts_with("\xff\xfe") && !text.starts_with("\xfe\xff"),
      "'{0}' is UTF-16: expected UTF-8, which `iconv -f UTF-16 -t UTF-8 '{1}' > NEW-FILE` makes of "
      "it",
      path.string(), path.filename().string());
}

}  // namespace accrue
