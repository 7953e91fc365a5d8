#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace accrue::app {

// What may be meant by the name of an option that is none of `names`: "--lr", "--keep-best or
// --keep-last"; empty if nothing is near.
std::string meant_by(const std::string& name, const std::vector<std::string>& names);

// Prints what the command line parser has to say (help on stdout, errors on stderr), with the
// nearest known option or command for an unknown one. Returns the exit status.
int report(const CLI::App& app, const CLI::ParseError& error);
// What is wrong; empty if help is asked for.
std::string problem_of(const CLI::App& app, const CLI::ParseError& error);

}  // namespace accrue::app
