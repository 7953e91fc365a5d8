#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/inside.h"
#include "core/ledger.h"
#include "train/settings.h"
#include "train/stop.h"

namespace accrue::python {

// Rewrites the program's messages for callers of the module: "--micro-batch 4" becomes
// "micro_batch=4", and a temporary file becomes the argument whose weights it holds.
class Spelling {
 public:
  // `values` are the words that may follow the option in a message.
  void add(const std::string& option, const std::string& argument, std::vector<std::string> values);
  // As add(), with the words that the setting takes.
  void add(const Setting& setting, const std::string& argument);
  void add_file(const std::string& path, const std::string& argument);

  std::string of(const std::string& message) const;

  // Does `work`, and rewrites the messages of its errors.
  template <class Work>
  void in(const Work& work) const {
    try {
      work();
    } catch (const Stopped&) {
      throw;
    } catch (const OutOfMemory& error) {
      throw SpeltOutOfMemory(error, of(error.what()));
    } catch (const Error& error) {
      throw Error(of(error.what()));
    }
  }

 private:
  struct Argument {
    std::string name;
    std::vector<std::string> values;
  };
  class SpeltOutOfMemory : public OutOfMemory {
   public:
    SpeltOutOfMemory(const OutOfMemory& error, std::string text)
        : OutOfMemory(error), text_(std::move(text)) {}
    const char* what() const noexcept override { return text_.c_str(); }

   private:
    std::string text_;
  };

  std::map<std::string, Argument> arguments_;  // by the option's name
  std::vector<std::pair<std::string, std::string>> files_;
};

// "micro_batch" for "micro-batch".
std::string argument_name(std::string option);

}  // namespace accrue::python
