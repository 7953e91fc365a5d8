// The program potrace as a process, and other programs in its place: their output is checked.

#include "fonts/potrace.h"

#include <cerrno>

#include "data/filter.h"
#include "fonts/outline.h"
#include "tests/support/cli.h"
#include "tests/support/potrace.h"

namespace accrue::test {
namespace {

using fonts::BitmapSize;
using fonts::Contour;
using fonts::OutlinePoint;
using fonts::read_postscript;
using fonts::require_potrace;
using fonts::trace;
using fonts::TracedCurve;

// A folder with a program potrace that runs this script.
struct FakePotrace : Folder {
  explicit FakePotrace(const std::string& script) {
    TemporaryDirectory::write("potrace", "#!/bin/sh\n" + script);
    fs::permissions(path() / "potrace", fs::perms::owner_all);
  }
};

std::string nothing() { return {}; }

// A page of these operators, as potrace prints it.
std::string page(const std::string& operators) {
  return "%%Page: 1 1\nsave\n72.0 162.0 translate\n0.02 0.02 scale\n0 setgray\n" + operators +
         "restore\nshowpage\n";
}
std::string document(const std::string& pages) {
  return "%!PS-Adobe-3.0\n%%Creator: potrace\n" + pages + "%%Trailer\n%%EOF\n";
}

const std::vector<BitmapSize> eight_by_four{{8, 4}};
const std::string box =
    "10000 30000 moveto\n0 -20000 rlineto\n40000 0 rlineto\n"
    "0 5000 -5000 20000 -40000 20000 rcurveto\nclosepath\n";

}  // namespace

TEST_CASE("potrace's output becomes curves in pixels", "[font]") {
  const std::vector<BitmapSize> sizes{{8, 4}, {16, 16}, {8, 4}};
  const auto pages = read_postscript(
      document(page(box + box + "fill\n" + box + "fill\n") + page("") + page(box + "fill\n")),
      sizes);
  REQUIRE(pages.size() == 3);
  REQUIRE((pages[0].size() == 3 && pages[1].empty() && pages[2].size() == 1));
  const TracedCurve& curve = pages[2][0];
  REQUIRE(curve.start == TracedCurve::Point(1, 3));
  REQUIRE(curve.parts.size() == 3);
  REQUIRE((curve.parts[0].line && curve.parts[0].end == TracedCurve::Point(1, 1)));
  REQUIRE((curve.parts[1].line && curve.parts[1].end == TracedCurve::Point(5, 1)));
  REQUIRE(!curve.parts[2].line);
  REQUIRE(curve.parts[2].control1 == TracedCurve::Point(5, 1.5));
  REQUIRE(curve.parts[2].control2 == TracedCurve::Point(4.5, 3));
  REQUIRE(curve.parts[2].end == curve.start);
}

TEST_CASE("an outline that is not of its bitmap is refused", "[font]") {
  const auto refused = [](const std::string& text, const std::string& part) {
    INFO(text);
    REQUIRE_ERROR(read_postscript(text, eight_by_four), part);
    REQUIRE_ERROR(read_postscript(text, eight_by_four),
                  "potrace printed something else than outlines, for bitmap 1 of 1");
  };
  const auto drawn = [&](const std::string& operators, const std::string& part) {
    refused(document(page(operators)), part);
  };
  refused("", "no PostScript");
  refused("hello\n", "no PostScript");
  refused(document(""), "'' where 'save' was expected");
  refused(document(page("") + page("")), "more than that");
  const std::string whole = document(page(box + "fill\n"));
  for (size_t size = 0; size < whole.find("showpage") + 8; ++size)
    REQUIRE_ERROR(read_postscript(whole.substr(0, size), eight_by_four), "something else");
  drawn(box, "'restore' where 'fill' was expected");
  drawn("1 fill\n", "'fill' where 'fill' was expected");
  drawn("5 ", "numbers before 'restore'");
  drawn("1 moveto\n", "a moveto of 1 number");
  drawn("1 1 moveto\nclosepath\nfill\n", "does not end where it begins");
  drawn("1 1 moveto\n1 1 rlineto\nclosepath\nfill\n", "does not end where it begins");
  drawn("1 1 moveto\n1 rlineto\n", "'rlineto' after 1 number in a curve");
  drawn("1 1 moveto\n1 1 rcurveto\n", "'rcurveto' after 2 numbers in a curve");
  drawn("1 1 moveto\n1 1 lineto\n", "'lineto' after 2 numbers in a curve");
  drawn("1 1 moveto\n1.5 1 rlineto\n", "'1.5' after 0 numbers in a curve");
  drawn("1 2 3 4 5 6 7 moveto\n", "more numbers than an operator takes");
  drawn("80001 1 moveto\n", "leaves its bitmap");
  drawn("1 -1 moveto\n", "leaves its bitmap");
  drawn("0 0 moveto\n80000 40001 rlineto\n", "leaves its bitmap");
  drawn("0 0 moveto\n-80001 0 0 0 1 1 rcurveto\n", "leaves its bitmap");
  drawn("0 0 moveto\n0 0 0 80001 1 1 rcurveto\n", "leaves its bitmap");
  drawn("9223372036854775807 1 moveto\n", "leaves its bitmap");
  drawn("1 1 moveto\n-9223372036854775808 1 rlineto\n", "leaves its bitmap");
  drawn("92233720368547758070 1 moveto\n", "'92233720368547758070'");
}

TEST_CASE("a filter reads while it is written to", "[font]") {
  constexpr size_t chunks = 300, size = 100'000;
  size_t given = 0;
  std::string expected;
  const auto next = [&] {
    if (given == chunks) return std::string();
    expected += std::string(size, static_cast<char>('a' + given++ % 26));
    return expected.substr(expected.size() - size);
  };
  const Filtered run = run_filter({"cat"}, next, chunks * size);
  REQUIRE(run.status == 0);
  REQUIRE(run.output == expected);
  REQUIRE(run.errors.empty());

  const auto endless = [] { return std::string(size, 'x'); };
  // A program that ends before it has read all input.
  const Filtered stopped = run_filter({"head", "-c", "10"}, endless, 10);
  REQUIRE((stopped.status == 0 && stopped.output == "xxxxxxxxxx"));
  REQUIRE_ERROR(run_filter({"cat"}, endless, 1'000'000), "cat printed more than 1000000 bytes");
  const auto broken = []() -> std::string { fail("no more of it"); };
  REQUIRE_ERROR(run_filter({"cat"}, broken, 10), "no more of it");
  // No process remains of the programs that were ended.
  errno = 0;
  REQUIRE((::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD));
}

TEST_CASE("the end of a filter is reported", "[font]") {
  const auto run = [](const std::string& script) {
    return run_filter({"sh", "-c", script}, nothing, 1000);
  };
  const Filtered failed = run("echo out; echo wrong >&2; exit 3");
  REQUIRE((failed.status == 3 && failed.output == "out\n" && failed.errors == "wrong\n"));
  REQUIRE(run("kill -TERM $$").status == 128 + SIGTERM);
  // It may end by the signal of a broken pipe, which the program ignores for itself.
  REQUIRE(run("kill -PIPE $$").status == 128 + SIGPIPE);
  const Filtered talks = run("i=0; while [ $i -lt 3000 ]; do echo $i >&2; i=$((i+1)); done");
  REQUIRE((talks.status == 0 && talks.errors.size() == 4096));
  REQUIRE(run_filter({"accrue-has-no-such-program"}, nothing, 10).status == 127);
  const Folder folder;
  folder.TemporaryDirectory::write("text", "hello");
  REQUIRE(run_filter({folder / "text"}, nothing, 10).status == 126);
}

TEST_CASE("without a potrace that works there are no outlines", "[font]") {
  const GrayImage image(16, 16);
  {
    const Folder empty;
    const SearchedFirst path(empty.path(), true);
    REQUIRE_ERROR(require_potrace(),
                  "the program potrace, which is not on the PATH: install the program: apt install "
                  "potrace");
    REQUIRE_ERROR(trace(image), "apt install potrace");
    REQUIRE_THAT(succeed("info"), ContainsSubstring("\npotrace: none (font export"));
    REQUIRE(trace(std::vector<GrayImage>{}).empty());
  }
  const auto refused = [&](const std::string& script, const std::string& part) {
    INFO(script);
    const FakePotrace fake(script);
    const SearchedFirst path(fake.path());
    REQUIRE_ERROR(trace(image), part);
  };
  refused("cat >/dev/null; echo 'potrace: out of memory' >&2; echo more >&2; exit 2",
          "potrace cannot trace 1 bitmap: potrace: out of memory");
  refused("exit 1", "potrace cannot trace 1 bitmap: it ended with status 1");
  refused("kill -SEGV $$", "it ended with status 139");
  refused("cat >/dev/null", "something else than outlines, for bitmap 1 of 1: no PostScript");
  refused("cat >/dev/null; echo '%!PS-Adobe-3.0'", "'' where 'save' was expected");
  refused("cat", "no PostScript");
  refused("while :; do echo 1 1 rlineto; done", "potrace printed more than ");
  {
    const FakePotrace other("echo Hello");
    const SearchedFirst path(other.path());
    REQUIRE_ERROR(require_potrace(), "does not tell its version");
  }
  const FakePotrace old("echo 'potrace 1.8. Copyright'");
  const SearchedFirst path(old.path());
  REQUIRE(require_potrace() == "1.8");
}

TEST_CASE("many drawings are traced as each by itself", "[.potrace]") {
  NEEDS_POTRACE;
  std::vector<GrayImage> images;
  uint32_t state = 1;
  for (const int64_t size : {1, 24, 0, 64, 33, 24}) {
    GrayImage& image = images.emplace_back(size, size + size % 7);
    for (uint8_t& pixel : image.pixels)
      pixel = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  }
  const std::vector<std::vector<Contour>> outlines = trace(images);
  REQUIRE(outlines.size() == images.size());
  REQUIRE(!outlines[3].empty());
  for (size_t i = 0; i < images.size(); ++i) {
    const std::vector<Contour> alone = trace(images[i]);
    REQUIRE(alone.size() == outlines[i].size());
    for (size_t k = 0; k < alone.size(); ++k)
      REQUIRE(std::ranges::equal(alone[k], outlines[i][k], [](const auto& a, const auto& b) {
        return a.x == b.x && a.y == b.y && a.on_curve == b.on_curve;
      }));
  }
}

TEST_CASE("info names the potrace that is there", "[.potrace]") {
  NEEDS_POTRACE;
  REQUIRE_THAT(succeed("info"), ContainsSubstring("\npotrace: " + require_potrace() + "\n"));
}

}  // namespace accrue::test
