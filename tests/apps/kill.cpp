// Runs that are killed, wherever they are, go on from their checkpoints and end with the bits of a
// run that nobody disturbed.

#include <poll.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <random>
#include <thread>

#include "tests/support/child.h"

namespace accrue::test {
namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::microseconds;

const int pairs_of_kills = sanitized() ? 5 : 20;

// It depends on the machine whether a kill falls into the write of a checkpoint: until one has,
// more are tried, at most this many.
constexpr int most_kills = 500;

// Tells when something new appears in a directory.
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

// A small run that writes a checkpoint after every step: most of its time is in writing them.
struct Victim : Folder {
  enum class Kind { classifier, font };

  explicit Victim(Kind kind = Kind::classifier) {
    if (kind == Kind::font) write_glyph_data(path().string());
    else write_idx_data(*this);
    common = kind == Kind::font
                 ? "font train --width 0.125 --micro-batch 2 --effective-batch 5 --epochs 2 "
                   "--d-spectral-norm --self-attention --eval-every epoch --data "
                 : "train --model mlp-small --width 0.05 --micro-batch 3 --effective-batch 8 "
                   "--epochs 6 --dropout 0.2 --schedule plateau --data ";
    common += path().string();
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
  // Starts a run and kills it within `longest`. True if it was writing a checkpoint.
  bool kill(std::mt19937_64& random, const std::string& directory, Microseconds longest) const {
    Child child(resume(directory), *this / "text");
    return kill(child, random, directory, longest);
  }
  // Starts a run and kills it soon after it has begun to write one. True if it was still writing.
  bool kill_while_writing(std::mt19937_64& random, const std::string& directory,
                          Microseconds longest) const {
    const Watch watch(directory);
    Child child(resume(directory), *this / "text");
    watch.wait(longest);
    return kill(child, random, directory, Microseconds(200));
  }
  void require_same_end(const std::string& directory) const {
    const std::string text = succeed(resume(directory));
    INFO(text);
    REQUIRE(file_bytes(*this / "parts") == file_bytes(*this / "whole"));
    REQUIRE(text.find("warning") == std::string::npos);
  }

  std::string common;

 private:
  bool kill(Child& child, std::mt19937_64& random, const std::string& directory,
            Microseconds longest) const {
    std::uniform_int_distribution<int64_t> moment(0, longest.count());
    std::this_thread::sleep_for(Microseconds(moment(random)));
    child.send(SIGKILL);
    const int status = child.wait();
    INFO(child.text());
    // Ended by the signal, or at the end before it; without room, by the error.
    REQUIRE((status == 128 + SIGKILL || status == 0 || status == 1));
    if (status == 1) REQUIRE_THAT(child.text(), ContainsSubstring("(the disk is full)"));
    if (!fs::exists(directory)) return false;
    for (const auto& entry : fs::directory_iterator(directory))
      if (entry.path().filename().string().starts_with(".accrue-checkpoint-")) return true;
    return false;
  }
};

void kill_at_random_moments(int kills, Victim::Kind kind = Victim::Kind::classifier) {
  const Victim victim(kind);
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

}  // namespace

TEST_CASE("a run killed at any moment goes on to the same bits", "[.kill]") {
  kill_at_random_moments(10);
}

TEST_CASE("two networks killed in the turn of either go on to the same bits", "[.kill]") {
  kill_at_random_moments(sanitized() ? 3 : 20, Victim::Kind::font);
}

TEST_CASE("a run killed at any of many moments goes on to the same bits", "[.][thorough]") {
  kill_at_random_moments(sanitized() || on_runner() ? 10 : 100);
}

TEST_CASE("a run killed again and again while the disk is full goes on", "[.full-disk]") {
  const Victim victim;
  const std::string disk = victim / "disk", directory = disk + "/checkpoints";
  const Microseconds duration = victim.duration(victim / "elsewhere");
  fs::create_directory(disk);
  // Room for two checkpoints and a part of the third, which comes before one is removed.
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
