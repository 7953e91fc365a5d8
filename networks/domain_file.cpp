#include "networks/domain_file.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/inside.h"
#include "data/mapped_file.h"
#include "data/record_file.h"

namespace accrue {
namespace {

// The sizes of images, for use without data where a file leaves them free.
constexpr int64_t usual_channels = 3, usual_side = 64;

std::string checksum_of(const std::filesystem::path& path) {
  const MappedFile file(path);
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()),
                               file.bytes().size());
  return fmt::format("{:08x}-{}", crc32c(bytes), bytes.size());
}

std::optional<int64_t> known(const OnnxValueInfo& value, size_t axis) {
  if (axis >= value.sizes.size()) return {};
  const auto* const size = std::get_if<int64_t>(&value.sizes[axis]);
  return size ? std::optional(*size) : std::nullopt;
}

std::vector<std::string> names_of(const std::vector<OnnxValueInfo>& values) {
  std::vector<std::string> names;
  for (const OnnxValueInfo& value : values) names.push_back(value.name);
  return names;
}

const OnnxValueInfo& first_input(const OnnxFile& file) {
  static const OnnxValueInfo nothing;
  return file.inputs.empty() ? nothing : file.inputs.front();
}

bool is_image(const OnnxValueInfo& input) { return input.sizes.size() == 4; }

// True if the op acts on the classes alone, which are the sizes behind the samples.
bool is_over_classes(const OnnxNode& node, size_t rank, int64_t opset) {
  if (node.op == "Sigmoid") return true;
  constexpr int64_t no_flattening = 13;  // from this opset on
  const int64_t axis = node.integer("axis", opset < no_flattening ? 1 : -1);
  if (rank == 2) return axis == 1 || axis == -1;
  return opset >= no_flattening && (axis == 1 || axis == 1 - static_cast<int64_t>(rank));
}

}  // namespace

std::string detail::described(const OnnxValueInfo& value) {
  return fmt::format("'{}' {} {}", value.name, to_string(value.type),
                     value.has_shape ? sizes_text(value) : "of unknown sizes");
}

NetworkFile::NetworkFile(const std::filesystem::path& path)
    : file_(OnnxFile::read(path)), checksum_(checksum_of(path)) {}

const OnnxValueInfo& NetworkFile::input() const {
  check(file_->inputs.size() == 1,
        "{} has {} inputs ({}): a data set has one field that a network sees; expected a file of "
        "one input",
        name(), file_->inputs.size(), fmt::join(names_of(file_->inputs), ", "));
  const OnnxValueInfo& only = file_->inputs.front();
  check(is_floating(only.type),
        "{}: the input '{}' is {}: data sets of images and tables have numbers; expected float32, "
        "float16 or float64",
        name(), only.name, to_string(only.type));
  check(only.has_shape && only.sizes.size() > 1,
        "{}: the input '{}' is {}: expected the number of samples and sizes of a sample", name(),
        only.name, only.has_shape ? sizes_text(only) : "of an unknown number of sizes");
  return only;
}

const OnnxValueInfo& NetworkFile::output(const std::string& wanted) const {
  const std::vector<std::string> names = names_of(file_->outputs);
  const auto found = wanted.empty()
                         ? file_->outputs.begin()
                         : std::ranges::find(file_->outputs, wanted, &OnnxValueInfo::name);
  check(found != file_->outputs.end() && (!wanted.empty() || names.size() == 1),
        "{} has the outputs {}: expected --output and one of them{}", name(),
        fmt::join(names, ", "), wanted.empty() ? "" : ", not " + wanted);
  return *found;
}

SampleSpec NetworkFile::sample(const std::string& wanted) const {
  const OnnxValueInfo& in = first_input(*file_);
  const OnnxValueInfo& out = output(wanted);
  const bool are_images = is_image(in);
  std::vector<int64_t> shape;
  for (size_t axis = 1; axis < in.sizes.size(); ++axis)
    shape.push_back(
        known(in, axis).value_or(are_images && axis == 1 ? usual_channels : usual_side));
  const bool has_masks = are_images && out.has_shape && out.sizes.size() == 4;
  const int64_t classes = known(out, 1).value_or(1);
  return {{{are_images ? "images" : "features", are_images ? Encoding::pixel : Encoding::number,
            Shape(shape)},
           {.name = has_masks    ? "masks"
                    : are_images ? "labels"
                                 : "targets",
            .encoding = has_masks ? Encoding::mask : Encoding::index,
            .classes = classes}}};
}

void NetworkFile::check_takes(const Shape& sample, const std::string& whose) const {
  const OnnxValueInfo& in = input();
  bool fits = in.sizes.size() == sample.sizes().size() + 1;
  for (size_t axis = 1; fits && axis < in.sizes.size(); ++axis)
    fits = known(in, axis).value_or(sample[int64_t(axis) - 1]) == sample[int64_t(axis) - 1];
  const std::string channels = std::to_string(known(in, 1).value_or(sample[0]));
  const auto size = image_size();
  check(fits, "{}: the input '{}' is {}, but {} are {}: expected {}", name(), in.name,
        sizes_text(in), whose, sample,
        size && sample.rank() == 3
            ? fmt::format("{} channels, and --image-size {}, which resizes the images of a folder",
                          channels, *size)
            : "samples of the input's sizes");
}

std::optional<std::string> NetworkFile::image_size() const {
  const OnnxValueInfo& in = first_input(*file_);
  const auto height = known(in, 2), width = known(in, 3);
  if (!is_image(in) || !height || !width) return {};
  return fmt::format("{}x{}", *height, *width);
}

namespace {

// The node that computes a value, before nodes that only hand it on.
std::vector<OnnxNode>::const_iterator giver_of(const OnnxFile& file, std::string value) {
  for (;;) {
    const auto giver = std::ranges::find_if(file.nodes, [&](const OnnxNode& node) {
      return std::ranges::find(node.outputs, value) != node.outputs.end();
    });
    const bool hands_on = giver != file.nodes.end() &&
                          (giver->op == "Identity" || giver->op == "Cast") &&
                          !giver->inputs.empty() && !giver->inputs.front().empty();
    if (!hands_on) return giver;
    value = giver->inputs.front();
  }
}

}  // namespace

std::string NetworkFile::last_op(const std::string& wanted) const {
  const OnnxValueInfo& out = output(wanted);
  const auto giver = giver_of(*file_, out.name);
  if (giver == file_->nodes.end() || giver->inputs.empty()) return {};
  const size_t rank = out.has_shape ? out.sizes.size() : 2;
  return is_over_classes(*giver, rank, file_->opset) ? giver->op : std::string();
}

std::string NetworkFile::answer_of(const Choice& choice) const {
  const std::string name = output(choice.output).name;
  if (!choice.left_out.contains(last_op(choice.output))) return name;
  return giver_of(*file_, name)->inputs.front();
}

std::shared_ptr<const OnnxNetwork> NetworkFile::network(const Choice& choice) const {
  const std::lock_guard lock(mutex_);
  if (choice_ == choice) return network_;
  network_ = std::make_shared<const OnnxNetwork>(
      file_, OnnxReading{.train = {choice.trained.begin(), choice.trained.end()},
                         .samples = {{input().name, choice.sample}},
                         .outputs = {answer_of(choice)}});
  choice_ = choice;
  return network_;
}

std::shared_ptr<const OnnxNetwork> NetworkFile::whole(
    const std::vector<std::string>& trained) const {
  return std::make_shared<const OnnxNetwork>(
      file_, OnnxReading{.train = {trained.begin(), trained.end()}, .samples = {}, .outputs = {}});
}

Shape NetworkFile::answer(const Choice& choice) const {
  const auto made = network(choice);
  return made->output_shape(made->outputs().front());
}

}  // namespace accrue
