#pragma once

#include <fmt/format.h>

#include <functional>
#include <string_view>

#include "job/notices.h"

namespace accrue::app {

// Everything that the program prints passes through these functions. None of them throws: a
// terminal may close, a disk may be full or the reader of a pipe may be gone, and the work goes on.
// The exit status shows that a message was lost.

// Call this before the first message and before opening any file. From then on, a write to a pipe
// without a reader, or beyond the limit on file sizes, fails instead of ending the program, and no
// file gets the descriptor of a closed standard stream.
void begin_messages();

// Returns the program's exit status: `status`, or not 0 if a message was lost. If it was lost
// because the reader of standard output has gone, ends the program by SIGPIPE, as other programs
// do.
int end_messages(int status);

// From now on say() prints nothing.
void silence_messages();

// Takes a message, and whether it is an error.
using MessageSink = std::function<void(std::string_view text, bool is_error)>;
// From now on `sink` takes this thread's messages, for a process that belongs to another program. A
// null sink prints them again. It must not throw. Returns the previous sink.
MessageSink redirect_messages(MessageSink sink);

// Keeps standard output for machine-readable output: from now on say() prints to standard error.
// Throws Error if it cannot.
void reserve_standard_output();
void write_standard_output(std::string_view text) noexcept;

// Writes to another pipe as write_standard_output() does.
void write_to_pipe(int descriptor, std::string_view text) noexcept;

// True once the reader of a pipe that the program writes to has gone.
bool is_reader_gone() noexcept;

void say_text(fmt::string_view format, fmt::format_args args) noexcept;
void say_error_text(fmt::string_view format, fmt::format_args args) noexcept;

// Prints a message for people on standard output.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) noexcept {
  say_text(format, fmt::make_format_args(args...));
}

// Prints an error on standard error, or on standard output if standard error fails.
template <class... Args>
void say_error(fmt::format_string<Args...> format, Args&&... args) noexcept {
  say_error_text(format, fmt::make_format_args(args...));
}

// Notices that print jobs' messages by say() and say_error().
const Notices& spoken();

// Prints an error from a signal handler, which may do little else.
void say_in_handler(std::string_view text) noexcept;

// The current width of the terminal on standard output; 80 if it is not a terminal.
size_t terminal_columns();

// True for a terminal on which the program may redraw lines by escape sequences: not if TERM is
// dumb or missing, and not if NO_COLOR is set.
bool draws_over(int descriptor);

}  // namespace accrue::app
