#pragma once

#include <string>
#include <vector>

namespace accrue {

// What `accrue predict` is asked for with the weights of any domain's network.
struct AnswerFiles {
  std::string out;                      // a directory
  std::vector<std::string> paths{};     // to answer to, beside the request's data
  std::vector<std::string> unheeded{};  // the names of given options that act on images alone
  bool force = false;                   // replace files that the program has not written
};

}  // namespace accrue
