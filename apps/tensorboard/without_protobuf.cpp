#include "apps/tensorboard/event_file.h"
#include "core/error.h"

namespace accrue::app {
namespace {

[[noreturn]] void refuse() {
  throw Error(
      "--log-dir writes TensorBoard's files with protobuf, without which this program was built: "
      "install the packages libprotobuf-dev and protobuf-compiler (scripts/setup.sh does) and "
      "build again, or use --json FILE, which needs neither");
}

}  // namespace

void require_event_files() { refuse(); }

EventFile::EventFile(const std::filesystem::path& directory, int64_t)
    : file_(directory, AppendFile::Existing::refused) {
  refuse();
}
void EventFile::add(int64_t, const Tagged<double>&, const Tagged<Histogram>&) {}
std::vector<Event> read_events(const std::filesystem::path&) { refuse(); }

}  // namespace accrue::app
