#pragma once

#include <fmt/format.h>

#include <functional>
#include <string_view>

#include "job/notices.h"

namespace accrue::app {

// All that the program prints passes through here. Nothing of it throws: a terminal may be closed,
// a disk full, or the reader of a pipe gone, and the work goes on. What is lost shows in the exit
// status.

// Call this before the first message and before any file is opened. From then on a write to a
// pipe without a reader, or beyond the limit on file sizes, fails instead of ending the program,
// and no file is taken for a standard stream that is closed.
void begin_messages();

// Returns the program's exit status in place of `status`: not 0 if a message was lost. Where that
// was because the reader of standard output has gone, the program ends by SIGPIPE, as others do.
int end_messages(int status);

// say() says nothing more.
void silence_messages();

// Takes what is said, on standard output or on standard error.
using MessageSink = std::function<void(std::string_view text, bool is_error)>;
// From now on `sink` takes this thread's words, in a process that is another program's. If
// it is null, they are printed. It must not throw. Returns what took them before.
MessageSink redirect_messages(MessageSink sink);

// Keeps standard output for what programs read: from now on say() goes to standard error. Throws
// Error if it cannot.
void reserve_standard_output();
void write_standard_output(std::string_view text) noexcept;

// Does the same to another pipe.
void write_to_pipe(int descriptor, std::string_view text) noexcept;

// True once the reader of a pipe that the program writes to has gone.
bool is_reader_gone() noexcept;

void say_text(fmt::string_view format, fmt::format_args args) noexcept;
void say_error_text(fmt::string_view format, fmt::format_args args) noexcept;

// Says something to people, on standard output.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) noexcept {
  say_text(format, fmt::make_format_args(args...));
}

// Says what is wrong, on standard error, or on standard output if that takes nothing.
template <class... Args>
void say_error(fmt::format_string<Args...> format, Args&&... args) noexcept {
  say_error_text(format, fmt::make_format_args(args...));
}

// What jobs have to say, said by these.
const Notices& spoken();

// The same in a signal handler, which may do little else.
void say_in_handler(std::string_view text) noexcept;

// The width of the terminal that standard output is, as it is now; 80 if it is none.
size_t terminal_columns();

// True for a terminal on which lines are drawn over, by escape sequences: not for one that knows
// none (TERM is dumb or missing), and not where NO_COLOR asks for none.
bool draws_over(int descriptor);

}  // namespace accrue::app
