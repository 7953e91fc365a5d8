#include "apps/commands/export.h"

#include "apps/cli/messages.h"
#include "apps/commands/train.h"

namespace accrue::app {

Settings settings_of(OnnxOptions& asked, Request& options) {
  constexpr Decides no_result = Decides::no_result;
  Settings s;
  s.group("Options")
      .add(options.init, trained_weights("As train saves them"))
      .add(asked.out, {.name = "out",
                       .decides = no_result,
                       .help = "The file to write",
                       .takes = writes("FILE.onnx"),
                       .asked_by = AskedBy::most_runs})
      .add_flag(asked.bytes, true,
                {"bytes", no_result,
                 "It takes pixels as bytes and normalises them as the network was trained"})
      .add_again(settings_of(options).at("image-size"),
                 {.name = "image-size",
                  .decides = no_result,
                  .help = "The height and width of the images that it takes, if the network takes "
                          "any",
                  .takes = "N|HxW",
                  .unset = "those that it was trained on",
                  .saved = Saved::by_domain});
  return s.append(settings_of(options).only({"threads"}));
}

void export_onnx(const Request& options, const OnnxOptions& asked) {
  Job({options}, spoken(), services_for(options))
      .export_onnx(asked.out, asked.bytes ? OnnxInput::bytes : OnnxInput::as_trained);
}

}  // namespace accrue::app
