#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace accrue::python {

// Docstrings in numpydoc's form, and the signatures that go with them.

struct ArgumentDoc {
  std::string name, type, text;
};

struct Docstring {
  std::string summary;  // one line
  std::string more{};   // paragraphs, each in a line of its own
  std::vector<ArgumentDoc> parameters{}, others{};
  std::string returned{}, returns{};  // a result's type, and what it is
  std::string raises{};               // when there is an accrue.Error
  std::string notes{};                // lines that stay as they are
  std::string examples{};             // lines of Python's console, which a test runs

  std::string text() const;
};

// An annotation as documentation shows types: "{'auto', 'cpu'}, optional" for
// "typing.Literal['auto', 'cpu'] | None".
std::string shown_type(std::string annotation);

// A docstring or a signature, for as long as the process lives.
const char* lasting(std::string text);

}  // namespace accrue::python
