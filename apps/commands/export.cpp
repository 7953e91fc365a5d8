#include "apps/commands/export.h"

#include "apps/cli/messages.h"
#include "apps/commands/train.h"

namespace accrue::app {

Settings settings_of(OnnxOptions& asked, Request& options) {
  constexpr Decides no_result = Decides::no_result;
  Settings s;
  s.group("Options")
      .add(options.init, trained_weights("The weights that train saved"))
      .add(asked.out, {.name = "out",
                       .decides = no_result,
                       .help = "The file to write",
                       .takes = writes("FILE.onnx"),
                       .asked_by = AskedBy::most_runs})
      .add_flag(asked.bytes, true,
                {"bytes", no_result, "Take pixels as bytes, and normalise them as in training"})
      .add_again(settings_of(options).at("image-size"),
                 {.name = "image-size",
                  .decides = no_result,
                  .help = "The height and width of its images, if the network takes any size",
                  .takes = "N|HxW",
                  .unset = "the size it was trained on",
                  .saved = Saved::by_domain});
  return s.append(settings_of(options).only({"threads"}));
}

void export_onnx(const Request& options, const OnnxOptions& asked) {
  Job({options}, spoken(), services_for(options))
      .export_onnx(asked.out, asked.bytes ? OnnxInput::bytes : OnnxInput::as_trained);
}

}  // namespace accrue::app
