#include "data/filter.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "core/error.h"
#include "core/inside.h"

extern char** environ;

namespace accrue {
namespace {

class Descriptor {
 public:
  Descriptor() = default;
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void operator=(int number) { number_ = number; }
  operator int() const { return number_; }
  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  int number_ = -1;
};

// A process. The destructor kills it if nobody has waited for its end.
class Process {
 public:
  explicit Process(pid_t id) : id_(id) {}
  ~Process() {
    if (ended_) return;
    ::kill(id_, SIGKILL);
    while (::waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  int wait() {
    int status = 0;
    while (::waitpid(id_, &status, 0) < 0)
      check(errno == EINTR, "lost a process: {}", std::strerror(errno));
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t id_;
  bool ended_ = false;
};

// The attributes that a process starts with: these descriptors as its standard streams, no blocked
// signals, and the default actions for signals that this program ignores.
class Start {
 public:
  Start(int input_and_output, int errors) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_adddup2(&actions_, input_and_output, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, input_and_output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, errors, STDERR_FILENO);
    posix_spawnattr_init(&attributes_);
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    for (const int ignored : {SIGPIPE, SIGXFSZ}) sigaddset(&defaults, ignored);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &defaults);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~Start() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  Start(const Start&) = delete;
  Start& operator=(const Start&) = delete;

  // Starts the process. Returns 0, or the errno of the failure.
  int operator()(pid_t& id, std::vector<std::string> command) const {
    std::vector<char*> argv;
    for (std::string& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    return ::posix_spawnp(&id, argv[0], &actions_, &attributes_, argv.data(), environ);
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

// Appends the available output, and closes the descriptor at its end.
void read_from(Descriptor& descriptor, std::string& text) {
  std::array<char, 1 << 16> buffer;
  const ssize_t n = ::read(descriptor, buffer.data(), buffer.size());
  if (n > 0) text.append(buffer.data(), static_cast<size_t>(n));
  // A program that ends without reading all of its input resets the socket.
  else if (n == 0 || (errno != EINTR && errno != EAGAIN)) descriptor.close();
}

// The input of a filter, as much of it as the filter accepts.
class Input {
 public:
  explicit Input(const std::function<std::string()>& next) : next_(next), chunk_(next()) {}

  bool is_over() const { return chunk_.empty(); }
  void write_to(int socket) {
    // MSG_NOSIGNAL: if nobody reads any more, no SIGPIPE ends this process.
    const ssize_t n = ::send(socket, chunk_.data() + written_, chunk_.size() - written_,
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      if (errno != EINTR && errno != EAGAIN) chunk_.clear();
      return;
    }
    written_ += static_cast<size_t>(n);
    if (written_ < chunk_.size()) return;
    written_ = 0;
    chunk_ = next_();
    if (is_over()) ::shutdown(socket, SHUT_WR);
  }

 private:
  const std::function<std::string()>& next_;
  std::string chunk_;
  size_t written_ = 0;
};

}  // namespace

Filtered run_filter(const std::vector<std::string>& command,
                    const std::function<std::string()>& next, size_t most_bytes) {
  constexpr size_t most_errors = 4096;
  std::array<int, 2> sockets, pipe;
  const auto made = [&](int result) {
    check(result == 0, "cannot write the input of {}: {}", command[0], std::strerror(errno));
  };
  Descriptor channel, errors, their_channel, their_errors;
  made(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()));
  channel = sockets[0];
  their_channel = sockets[1];
  made(::pipe2(pipe.data(), O_CLOEXEC));
  errors = pipe[0];
  their_errors = pipe[1];

  pid_t id = 0;
  const int problem = Start(their_channel, their_errors)(id, command);
  if (problem == ENOENT || problem == ENOTDIR) return {"", "", 127};
  if (problem == EACCES || problem == ENOEXEC) return {"", std::strerror(problem), 126};
  check(problem == 0, "cannot start {}: {}", command[0], std::strerror(problem));
  Process process(id);
  their_channel.close();
  their_errors.close();

  Filtered result{"", "", 0};
  Input input(next);
  if (input.is_over()) ::shutdown(channel, SHUT_WR);
  while (channel >= 0 || errors >= 0) {
    const short writes = input.is_over() ? 0 : POLLOUT;
    std::array<pollfd, 2> ready{
        {{channel, static_cast<short>(POLLIN | writes), 0}, {errors, POLLIN, 0}}};
    if (::poll(ready.data(), ready.size(), -1) < 0) {
      check(errno == EINTR, "cannot wait for {}: {}", command[0], std::strerror(errno));
      continue;
    }
    if (ready[0].revents & ~POLLOUT) read_from(channel, result.output);
    check(result.output.size() <= most_bytes, "{} printed more than {} bytes", command[0],
          most_bytes);
    if (ready[1].revents) read_from(errors, result.errors);
    result.errors.resize(std::min(result.errors.size(), most_errors));
    if (channel >= 0 && (ready[0].revents & POLLOUT)) input.write_to(channel);
  }
  result.status = process.wait();
  return result;
}

}  // namespace accrue
