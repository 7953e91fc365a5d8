#include "job/paths.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

#include "core/error.h"
#include "data/png.h"
#include "job/averages.h"
#include "train/class_table.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

// One spelling for every path to the same place, whether it exists or not.
fs::path spelt_out(fs::path path) {
  std::error_code problem;
  // A dangling link is followed by hand: its target may be created later.
  for (int links = 0; links < 40 && fs::is_symlink(path, problem) && !fs::exists(path, problem);
       ++links)
    path = path.parent_path() / fs::read_symlink(path, problem);
  fs::path result = fs::weakly_canonical(fs::absolute(path), problem);
  if (problem) result = fs::absolute(path).lexically_normal();
  return result.has_filename() ? result : result.parent_path();
}

// The path relative to a directory, "." for the directory itself; empty if it lies elsewhere.
fs::path within(const fs::path& directory, const fs::path& path) {
  const fs::path relative = spelt_out(path).lexically_relative(spelt_out(directory));
  return relative.empty() || *relative.begin() == ".." ? fs::path() : relative;
}

using FileId = Paths::FileId;

// Identifies a regular file, following links; empty if it is missing or something else.
std::optional<FileId> id_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return FileId{status.st_dev, status.st_ino};
}

// True for /dev/null, a terminal or a pipe.
bool is_device(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) && fs::is_other(path, ignored);
}

bool are_one(const fs::path& a, const fs::path& b) {
  if (is_device(a)) return false;
  const auto id = id_of(a);
  return spelt_out(a) == spelt_out(b) || (id && id == id_of(b));
}

// The first of these files below a directory. Follows links and enters each directory once.
std::optional<fs::path> find_below(const fs::path& directory, const std::set<FileId>& files,
                                   std::set<fs::path>& entered) {
  std::error_code ignored;
  if (!entered.insert(spelt_out(directory)).second) return std::nullopt;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    if (entry.is_directory(ignored)) {
      if (auto found = find_below(entry.path(), files, entered)) return found;
    } else if (const auto id = id_of(entry.path()); id && files.contains(*id)) {
      return entry.path();
    }
  }
  return std::nullopt;
}

// True for a file that a log or a checkpoint directory itself writes, by its path in the directory.
bool is_own(const std::string& option, const fs::path& relative) {
  const std::string first = relative.begin()->string();
  if (option.starts_with("--checkpoint-dir")) return first.starts_with("step-") || first == "best";
  static const std::set<std::string> of_log{"metrics.jsonl", "summary.json", "config.toml",
                                            "samples"};
  return option.starts_with("--log-dir") &&
         (of_log.contains(first) || first.starts_with("events.out.tfevents."));
}

std::string begin_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string begin(128, '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<size_t>(file.gcount()));
  return begin;
}

// False for weights, JSON, web pages and fonts: no data set reads them, even if they lie in its
// folder.
bool may_be_data(const fs::path& path) {
  if (path.filename() == "manifest.json") return true;
  const std::string begin = begin_of(path);
  const bool is_safetensors =
      begin.size() > 8 && begin[8] == '{' && begin.substr(4, 4) == std::string(4, '\0');
  const bool is_outline =
      begin.starts_with(std::string("\0\1\0\0", 4)) || begin.starts_with("OTTO");
  return !is_safetensors && !is_outline && !begin.starts_with('{') &&
         !begin.starts_with("<!DOCTYPE html>");
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream rest(text);
  for (std::string part; std::getline(rest, part, at);) parts.push_back(part);
  return parts;
}

// The path FILE of "FILE#N", which names part N of a file.
fs::path without_part(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) ? path : path.substr(0, path.rfind('#'));
}

bool is_written_by_us(const fs::path& path) {
  const std::string begin = begin_of(path);
  return is_own_png(std::as_bytes(std::span(begin))) || begin.starts_with(class_table_begin);
}

}  // namespace

void Paths::read(std::string what, const fs::path& path) {
  std::error_code ignored;
  if (!path.empty() && fs::exists(path, ignored)) inputs_.push_back({std::move(what), path});
}

void Paths::write(std::string what, const fs::path& path, Path kind) {
  if (!path.empty()) outputs_.push_back({std::move(what), path, kind});
}

void Paths::refuse_overwriting() const {
  check_each_other();
  check_inputs();
}

void Paths::check_each_other() const {
  const auto is_file = [](const Named& output) {
    return output.kind != Path::directory && output.kind != Path::answers;
  };
  for (const Named& a : outputs_)
    for (const Named& b : outputs_) {
      if (&a == &b || !is_file(a) || is_device(a.path)) continue;
      check(!are_one(a.path, b.path), "{} and {} are one path: expected two", a.what, b.what);
      // Writing b creates the directories above it, and a would be one of them.
      check(within(a.path, b.path).empty(),
            "{} is to be a file, but {} lies in it: "
            "expected two paths",
            a.what, b.what);
      const fs::path inside = within(b.path, a.path);
      check(is_file(b) || inside.empty() || !is_own(b.what, inside),
            "{} would replace a file of {}: expected another name", a.what, b.what);
    }
}

void Paths::check_inputs() const {
  std::error_code ignored;
  for (const Named& output : outputs_)
    for (const Named& input : inputs_) {
      const bool becomes_data = output.kind == Path::sample || output.kind == Path::answers;
      check(!becomes_data || !fs::is_directory(input.path, ignored) ||
                within(input.path, output.path).empty(),
            "{} lies in the folder {}, and would be taken for a part of the data: expected a path "
            "elsewhere",
            output.what, input.what);
      check(!are_one(output.path, input.path),
            "{} would replace {}, which is read: expected another path", output.what, input.what);
    }
  for (const Named& output : outputs_)
    if (const auto id = id_of(output.path); id && may_be_data(output.path))
      check_not_read(output.what, {*id});
}

void Paths::check_not_read(const std::string& what, const std::set<FileId>& files) const {
  std::error_code ignored;
  for (const Named& input : inputs_) {
    std::set<fs::path> entered;
    const auto id = id_of(input.path);
    const auto found =
        id && files.contains(*id) ? input.path : find_below(input.path, files, entered);
    check(!found, "{} would replace '{}', which is read by {}: expected another path", what,
          found ? found->string() : "", input.what);
  }
}

void Paths::check_answers(const std::string& what, const std::vector<fs::path>& answers,
                          bool force) const {
  std::set<fs::path> seen;
  std::set<FileId> replaced;
  std::vector<std::string> others;
  for (const fs::path& path : answers) {
    check(seen.insert(path).second,
          "the answers to two samples would both be '{}': expected images of different names, "
          "whatever their endings",
          path.string());
    const auto id = id_of(path);
    if (id) replaced.insert(*id);
    if (id && !is_written_by_us(path)) others.push_back(path.string());
  }
  if (!replaced.empty()) check_not_read(what, replaced);
  check(force || others.empty(),
        "{} would replace {}, which accrue has not written: expected another directory, or --force",
        what,
        others.empty()       ? ""
        : others.size() == 1 ? others[0]
                             : fmt::format("{} files such as '{}'", others.size(), others[0]));
}

void add_paths(Paths& paths, const Settings& settings, const Domains& domains) {
  const std::vector<std::string> known = domains.data_sets();
  int standard_outputs = 0;
  for (const Setting& setting : settings) {
    const SettingFacts& about = setting.about;
    const std::string value = setting.text(), what = fmt::format("--{} {}", about.name, value);
    if (setting.is_flag || value.empty()) continue;
    if (about.name == "model" && is_model_file(value)) paths.read(what, value);
    if (is_output(about.takes.path)) {
      if (value == "-") ++standard_outputs;
      else paths.write(what, value, about.takes.path);
    } else if (about.takes.path == Path::input) {
      const auto takes = [&](const char* word) {
        return about.takes.find(word) != std::string::npos;
      };
      if (takes("NAME") && std::ranges::find(known, value) != known.end()) {
        const auto files = domains.of_data(value).directory_of(value);
        if (files) paths.read(what, *files);
        continue;
      }
      // A setting that takes a GGUF file also takes a directory and reads the weights in it.
      std::error_code ignored;
      if (takes("FILE.gguf"))
        for (const auto& entry : fs::directory_iterator(value, ignored))
          paths.read(what, entry.path());
      for (const std::string& each :
           setting.is_list ? split(value, ',') : std::vector<std::string>{value})
        paths.read(what, without_part(each));
    }
  }
  check(standard_outputs < 2, "{} outputs are '-', standard output: expected one of them",
        standard_outputs);
  if (settings.has("ema") && settings.has("save") && !settings.at("ema").text().empty())
    if (const std::string save = settings.at("save").text(); !save.empty())
      paths.write(fmt::format("the average of --save {}", save), average_path(save), Path::file);
}

}  // namespace accrue
