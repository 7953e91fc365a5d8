#pragma once

#include <map>
#include <string>

#include "text/tokenizer.h"

namespace accrue {

// The tokenizer of this name: "bytes", or a path as read_tokenizer() takes it.
TokenizerPtr tokenizer_at(const std::string& name);

// The contents of the files that read_tokenizer() reads at a path, by the names by which it finds
// them in a directory of their own; none for "bytes".
std::map<std::string, std::string> files_of_tokenizer(const std::string& name);

}  // namespace accrue
