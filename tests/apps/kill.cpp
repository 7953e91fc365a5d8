// Runs that are killed at any point continue from their checkpoints, and end with the same bits as
// an undisturbed run.

#include <poll.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <random>
#include <thread>

#include "data/checkpoint_directory.h"
#include "tests/support/child.h"
#include "tests/support/skipped.h"

namespace accrue::test {
namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::microseconds;

const int pairs_of_kills = sanitized() ? 5 : 20;

// Whether a kill falls into the write of a checkpoint depends on the machine. The tests kill until
// one has, at most this many times.
constexpr int most_kills = 500;

// Notices when something new appears in a directory.
class Watch {
 public:
  explicit Watch(const std::string& directory) : descriptor_(::inotify_init1(IN_CLOEXEC)) {
    REQUIRE(descriptor_ >= 0);
    REQUIRE(::inotify_add_watch(descriptor_, directory.c_str(), IN_CREATE) >= 0);
  }
  ~Watch() { ::close(descriptor_); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void wait(Microseconds longest) const {
    pollfd event{descriptor_, POLLIN, 0};
    ::poll(&event, 1, static_cast<int>(longest.count() / 1000) + 1);
  }

 private:
  int descriptor_;
};

// With a checkpoint after every step, these runs spend most of their time writing.
const std::string small_windows =
    "train --model mlp-small --width 0.05 --micro-batch 3 --effective-batch 8 --epochs 6 "
    "--dropout 0.2 --schedule plateau";
const std::string two_networks =
    "font train --width 0.125 --micro-batch 2 --effective-batch 5 --epochs 2 --d-spectral-norm "
    "--self-attention --eval-every epoch";
// These runs spend most of their time in windows, and go through each window several times.
constexpr int64_t large_windows = 3;
const std::string of_large_windows =
    fmt::format(" --data digits --micro-batch 3 --effective-batch 300 --steps {}", large_windows);
const std::string walked_windows =
    "train --model cnn-bn --batch-norm window --batch-norm-by walk" + of_large_windows;
const std::string kept_windows =
    "train --model cnn-bn --batch-norm window --recompute all" + of_large_windows;
const std::string compared_windows =
    "train --model cnn --objective simclr --embedding-size 8 --augment crop=0.6,rotate" +
    of_large_windows;

struct Victim : Folder {
  enum class Place { write, window, elsewhere };

  explicit Victim(const std::string& run = small_windows) {
    common = run;
    if (run == two_networks) write_glyph_data(path().string());
    else write_idx_data(*this);
    if (run == two_networks || run == small_windows) common += " --data " + path().string();
    succeed(common + " --save " + (*this / "whole"));
  }
  std::string resume(const std::string& directory) const {
    return common + " --checkpoint-every 1 --keep-last 2 --resume --checkpoint-dir " + directory +
           " --save " + (*this / "parts");
  }
  // The time that a run takes if nobody kills it.
  Microseconds duration(const std::string& directory) const {
    const auto start = Clock::now();
    succeed(resume(directory));
    fs::remove_all(directory);
    return std::chrono::duration_cast<Microseconds>(Clock::now() - start);
  }
  // Starts a run and kills it within `longest`. Returns true if it was writing a checkpoint.
  bool kill(std::mt19937_64& random, const std::string& directory, Microseconds longest) const {
    Child child(resume(directory), *this / "text");
    return kill(child, random, directory, longest) == Place::write;
  }
  // Starts a run and kills it after its first step. Returns true if it was within a window.
  bool kill_in_window(std::mt19937_64& random, const std::string& directory,
                      Microseconds longest) const {
    Child child(resume(directory), *this / "text");
    child.wait_until([&] { return fs::exists(directory + "/step-00000001"); });
    return kill(child, random, directory, longest) == Place::window;
  }
  // Starts a run and kills it soon after it has begun to write a checkpoint. Returns true if it was
  // still writing.
  bool kill_while_writing(std::mt19937_64& random, const std::string& directory,
                          Microseconds longest) const {
    const Watch watch(directory);
    Child child(resume(directory), *this / "text");
    watch.wait(longest);
    return kill(child, random, directory, Microseconds(200)) == Place::write;
  }
  // Starts a run and stops it by two signals after its first step. Returns true if both came within
  // one window, which is then rolled back.
  bool stop_in_window(const std::string& directory) const {
    Child child(resume(directory), *this / "text");
    child.wait_until([&] { return fs::exists(directory + "/step-00000001"); });
    child.send(SIGTERM);
    child.wait_until([&] { return child.text().find("interrupted") != std::string::npos; });
    child.send(SIGINT);
    const int status = child.wait();
    if (status != 1) return false;
    REQUIRE_THAT(child.text(), ContainsSubstring("interrupted twice: stopped after"));
    return true;
  }
  void require_same_end(const std::string& directory) const {
    const std::string text = succeed(resume(directory));
    INFO(text);
    REQUIRE(file_bytes(*this / "parts") == file_bytes(*this / "whole"));
    REQUIRE(text.find("warning") == std::string::npos);
  }

  std::string common;

 private:
  Place kill(Child& child, std::mt19937_64& random, const std::string& directory,
             Microseconds longest) const {
    std::uniform_int_distribution<int64_t> moment(0, longest.count());
    std::this_thread::sleep_for(Microseconds(moment(random)));
    child.send(SIGKILL);
    const int status = child.wait();
    INFO(child.text());
    // The signal ended the run, or the run ended before it. On a full disk, it ended with the
    // error.
    REQUIRE((status == 128 + SIGKILL || status == 0 || status == 1));
    if (status == 1) REQUIRE_THAT(child.text(), ContainsSubstring("(the disk is full)"));
    if (!fs::exists(directory)) return Place::elsewhere;
    for (const auto& entry : fs::directory_iterator(directory))
      if (entry.path().filename().string().starts_with(".accrue-checkpoint-")) return Place::write;
    const auto steps = CheckpointDirectory(directory).steps();
    const bool in_window = !steps.empty() && steps.back() < large_windows;
    return in_window ? Place::window : Place::elsewhere;
  }
};

void kill_at_random_moments(int kills, const std::string& run = small_windows) {
  const Victim victim(run);
  const std::string directory = victim / "checkpoints";
  const Microseconds duration = victim.duration(directory);
  const uint64_t seed = 1;
  std::mt19937_64 random(seed);
  int tried = 0, while_writing = 0;
  while (tried < kills || (while_writing == 0 && tried < most_kills)) {
    INFO("kill " << ++tried << " of seed " << seed);
    while_writing += victim.kill(random, directory, duration);
    victim.require_same_end(directory);
    fs::remove_all(directory);
  }
  std::cout << tried << " runs killed at random moments (seed " << seed << "), " << while_writing
            << " while a checkpoint was written: every resume ended with the same bits\n";
  REQUIRE(while_writing > 0);
}

// Ends each kind of run within windows: `kills` times by SIGKILL and once by two signals. Ends
// outside of a window do not count.
void kill_in_windows(int kills) {
  for (const std::string& run : {walked_windows, kept_windows, compared_windows}) {
    INFO(run);
    const Victim victim(run);
    const std::string directory = victim / "checkpoints";
    const Microseconds duration = victim.duration(directory);
    const uint64_t seed = 3;
    std::mt19937_64 random(seed);
    int tried = 0, killed = 0, stopped = 0;
    for (; killed + stopped <= kills && tried < most_kills; ++tried) {
      INFO("end " << tried << " of seed " << seed);
      if (killed < kills) killed += victim.kill_in_window(random, directory, duration / 2);
      else stopped += victim.stop_in_window(directory);
      victim.require_same_end(directory);
      fs::remove_all(directory);
    }
    std::cout << killed << " runs killed and " << stopped << " stopped in windows (" << tried
              << " tried): every resume of " << run << " ended with the same bits\n";
    REQUIRE(stopped == 1);
  }
}

}  // namespace

TEST_CASE("a run killed at any moment goes on to the same bits", "[.kill]") {
  kill_at_random_moments(10);
}

TEST_CASE("two networks killed in the turn of either go on to the same bits", "[.kill]") {
  kill_at_random_moments(sanitized() ? 3 : 20, two_networks);
}

TEST_CASE("a run killed in a window that it goes through several times goes on to the same bits",
          "[.kill]") {
  kill_in_windows(sanitized() ? 1 : 3);
}

TEST_CASE("a run killed at any of many moments goes on to the same bits", "[.][thorough]") {
  kill_at_random_moments(sanitized() || on_runner() ? 10 : 100);
  if (!on_runner()) kill_in_windows(sanitized() ? 3 : 30);
}

TEST_CASE("a run killed again and again while the disk is full goes on", "[.full-disk]") {
  const Victim victim;
  const std::string disk = victim / "disk", directory = disk + "/checkpoints";
  const Microseconds duration = victim.duration(victim / "elsewhere");
  fs::create_directory(disk);
  // Room for two checkpoints and a part of the third, which is written before an old one is
  // removed.
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=400k") != 0)
    SKIP_LOUDLY("mounting a small file system needs root");
  const uint64_t seed = 2;
  std::mt19937_64 random(seed);
  int tried = 0, while_writing = 0;
  try {
    fs::create_directory(directory);
    for (; tried < 2 * pairs_of_kills || (while_writing == 0 && tried < most_kills); tried += 2) {
      while_writing += victim.kill(random, directory, duration);
      while_writing += victim.kill_while_writing(random, directory, duration);
    }
    ::mount("tmpfs", disk.c_str(), "tmpfs", MS_REMOUNT, "size=4m");
    victim.require_same_end(directory);
  } catch (...) {
    ::umount(disk.c_str());
    throw;
  }
  ::umount(disk.c_str());
  std::cout << tried << " runs killed (seed " << seed << ") on a full disk, " << while_writing
            << " while a checkpoint was written: the last one ended with the same "
            << "bits\n";
  REQUIRE(while_writing > 0);
}

}  // namespace accrue::test
