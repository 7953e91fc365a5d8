#include "core/error.h"
#include "train/tensorboard/event_file.h"

namespace accrue {
namespace {

[[noreturn]] void refuse() {
  throw Error(
      "a log for TensorBoard is written with protobuf, without which accrue was built: "
      "install the packages libprotobuf-dev and protobuf-compiler (scripts/setup.sh does) and "
      "build again, or write a file of JSON lines, which needs neither");
}

}  // namespace

void require_event_files() { refuse(); }

EventFile::EventFile(const std::filesystem::path& directory, int64_t, Describe)
    : file_(directory, AppendFile::Existing::refused) {
  refuse();
}
void EventFile::add_hyperparameters(const Tagged<std::string>&) {}
void EventFile::add(int64_t, const Tagged<double>&, const Tagged<Histogram>&) {}
void EventFile::add_picture(int64_t, const std::string&, const GrayImage&) {}
void EventFile::add_text(int64_t, const std::string&, const std::string&) {}
std::vector<Event> read_events(const std::filesystem::path&) { refuse(); }

}  // namespace accrue
