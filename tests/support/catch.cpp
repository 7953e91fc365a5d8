// Catch's macros in threads other than the one that runs the tests.

#include "tests/support/catch.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string>
#include <thread>

#include "core/activity.h"
#include "tests/support/thread_ranks.h"

namespace accrue::test {
namespace {

// Runs `body` in a forked child. Returns what it prints if it ends the child by SIGABRT, and an
// empty string if it does not.
std::string last_words(const std::function<void()>& body) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // without Catch's report
    ::dup2(ends[1], STDERR_FILENO);
    body();
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string said;
  char buffer[4096];
  for (ssize_t n; (n = ::read(ends[0], buffer, sizeof(buffer))) > 0;)
    said.append(buffer, static_cast<size_t>(n));
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? said : std::string();
}

}  // namespace

TEST_CASE("an assertion or message in a thread of its own ends the tests", "[threads]") {
  using Body = std::function<void()>;
  const auto in_thread = [](const Body& body) -> Body {
    return [body] { std::thread(body).join(); };
  };
  for (const Body& ended :
       {in_thread([] { REQUIRE(true); }), in_thread([] { CHECK_FALSE(false); }),
        in_thread([] { INFO("somewhere"); }), in_thread([] { CAPTURE(::getpid()); }),
        in_thread([] { FAIL("never"); }),
        in_thread([] { REQUIRE_THAT("abc", ContainsSubstring("b")); }),
        in_thread([] { REQUIRE_THROWS_AS(throw 1, int); }),
        Body([] { run_ranks(2, [](Ranks&) { REQUIRE(true); }); }),
        Body([] { Activity([] { REQUIRE(true); }).resume(); })})
    REQUIRE_THAT(last_words(ended),
                 ContainsSubstring("catch.cpp:") && ContainsSubstring("in a thread of its own"));
  REQUIRE(last_words([] {
            INFO("here");
            REQUIRE(true);
          }).empty());
}

}  // namespace accrue::test
