#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace accrue::app {

// Prints what the command line parser has to say (help on stdout, errors on stderr), with the
// nearest known option or command for an unknown one. Returns the exit status.
int report(const CLI::App& app, const CLI::ParseError& error);
// What is wrong; empty if help is asked for.
std::string problem_of(const CLI::App& app, const CLI::ParseError& error);

}  // namespace accrue::app
