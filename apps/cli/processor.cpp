#include "apps/cli/processor.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/inside.h"
#include "kernels/compiled_isa.h"

namespace accrue::app {
namespace {

namespace fs = std::filesystem;

// Reads `--isa LEVEL` or `--isa=LEVEL` before the command; CLI11 checks the rest later.
std::string wanted_isa(int argc, char** argv) {
  const std::string name = "--isa";
  for (int i = 1; i < argc && argv[i][0] == '-'; ++i) {
    const std::string argument = argv[i];
    if (argument == name && i + 1 < argc) return argv[i + 1];
    if (argument.starts_with(name + "=")) return argument.substr(name.size() + 1);
  }
  return "";
}

fs::path program_in(const fs::path& folder, const std::string& level) {
  return folder / level / "accrue";
}

}  // namespace

std::vector<std::string> isa_levels() {
#ifdef __x86_64__
  return {"x86-64-v4", "x86-64-v3"};
#else
  return {};
#endif
}

bool supports_isa([[maybe_unused]] const std::string& level) {
  // Clang knows these names since version 19.
#if defined(__x86_64__) && (!defined(__clang__) || __clang_major__ >= 19)
  if (level == "x86-64-v4") return __builtin_cpu_supports("x86-64-v4") != 0;
  if (level == "x86-64-v3") return __builtin_cpu_supports("x86-64-v3") != 0;
#endif
  return level == "baseline" || level == "native";
}

std::string choose_isa(const std::string& own, const std::string& wanted,
                       const std::string& folder) {
  const auto is_there = [&](const std::string& level) {
    return ::access(program_in(folder, level).c_str(), X_OK) == 0;
  };
  if (wanted.empty()) {
    const auto levels = isa_levels();
    const auto best = std::ranges::find_if(
        levels, [&](const auto& level) { return supports_isa(level) && is_there(level); });
    return own != "baseline" || best == levels.end() ? own : *best;
  }
  if (wanted == own) return own;
  check(std::ranges::count(isa_levels(), wanted) == 1 && is_there(wanted),
        "--isa {}: this program is compiled for {}, and there is no program for {} in {}", wanted,
        own, wanted, folder);
  check(supports_isa(wanted), "--isa {}: this processor lacks instructions of that level", wanted);
  return wanted;
}

void become_program_for_processor(int argc, char** argv) {
  std::error_code ignored;
  const fs::path self = fs::read_symlink("/proc/self/exe", ignored);
  const fs::path folder = self.parent_path().parent_path() / "libexec/accrue";
  const std::string level = choose_isa(compiled_isa(), wanted_isa(argc, argv), folder);
  if (level == compiled_isa()) return;
  ::execv(program_in(folder, level).c_str(), argv);
}

}  // namespace accrue::app
