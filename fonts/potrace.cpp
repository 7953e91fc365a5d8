#include "fonts/potrace.h"

#include "core/error.h"
#include "core/inside.h"
#include "data/filter.h"
#include "fonts/outline.h"

namespace accrue::fonts {
namespace {

constexpr const char* to_install =
    "install the program: apt install potrace, or see https://potrace.sourceforge.net";

// The reason for a failure: the first line of the program's errors, or else its exit status.
std::string reason(const Filtered& run) {
  const std::string said = run.errors.substr(0, run.errors.find('\n'));
  return said.empty() ? fmt::format("it ended with status {}", run.status) : said;
}

void check_was_found(const Filtered& run) {
  check(run.status != 127,
        "drawings become outlines by the program potrace, which is not on the PATH: {}",
        to_install);
}

}  // namespace

std::string Bitmap::pbm() const { return fmt::format("P4\n{} {}\n{}", width_, height_, bits_); }

std::string require_potrace() {
  const Filtered run = run_filter(
      {"potrace", "-v"}, [] { return std::string(); }, 1 << 16);
  check_was_found(run);
  constexpr std::string_view begin = "potrace ";
  check(run.status == 0 && run.output.starts_with(begin),
        "the program potrace on the PATH does not tell its version ({}): {}", reason(run),
        to_install);
  const std::string version =
      run.output.substr(begin.size(), run.output.find_first_of(" \n", begin.size()) - begin.size());
  return version.ends_with('.') ? version.substr(0, version.size() - 1) : version;
}

std::vector<std::vector<TracedCurve>> run_potrace(std::span<const BitmapSize> sizes,
                                                  const std::function<Bitmap(size_t i)>& next,
                                                  int64_t speck) {
  if (sizes.empty()) return {};
  // Single pixels of noise, enlarged eight times, need 1.3 bytes of output for each pixel.
  size_t most_bytes = 4096;
  for (const auto [width, height] : sizes)
    most_bytes += 1024 + static_cast<size_t>(8 * width * height);
  // Reads the standard input and writes plain PostScript to the standard output, a page for each
  // bitmap. Ink that touches only at corners stays apart (turn policy white).
  const std::string unit = std::to_string(postscript_unit), least = std::to_string(speck);
  const std::vector<std::string> command{"potrace", "-b",    "ps", "-c",  "-q", "-u", unit,
                                         "-z",      "white", "-t", least, "-o", "-",  "-"};
  size_t i = 0;
  const Filtered run = run_filter(
      command, [&] { return i < sizes.size() ? next(i++).pbm() : std::string(); }, most_bytes);
  check_was_found(run);
  check(run.status == 0, "potrace cannot trace {}: {}", counted(int64_t(sizes.size()), "bitmap"),
        reason(run));
  return read_postscript(run.output, sizes);
}

}  // namespace accrue::fonts
