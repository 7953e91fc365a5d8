#include "apps/text/commands.h"

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "apps/cli/messages.h"
#include "apps/domains.h"
#include "apps/text/prepare.h"
#include "apps/text/pretrained.h"
#include "apps/text/write.h"
#include "job/memory_advice.h"
#include "text/domain.h"
#include "text/samples.h"

namespace accrue::app {
namespace {

// The options of all text commands.
struct TextCommands {
  PrepareTextOptions prepare;
  Request options{domains_of_program()};
  WriteOptions write;
  ImportOptions import;
  ExportOptions publish;
  std::string merged = "merged.safetensors";
};

void add_text_commands(CommandLine& line) {
  const auto asked = std::make_shared<TextCommands>();
  Request& options = asked->options;
  options.model_name = "gpt-tiny";
  CLI::App& text = line.add_group("text", "Corpora, and texts by language models");
  const Settings of_prepare = settings_of(asked->prepare);
  line.known.append(of_prepare);
  line.add(text,
           {.name = "prepare",
            .description = "A corpus of tokens from texts",
            .settings = of_prepare,
            .work = [asked] { prepare_corpus(asked->prepare); },
            .needed = {"--text", "--out"}},
           line.options());
  const Settings of_write = settings_of(asked->write, options);
  line.known.append(of_write);
  line.add(text,
           {.name = "write",
            .description = "Continue a prompt, or answer in a chat",
            .settings = of_write,
            .work = [asked] { write_text(asked->options, asked->write); },
            .advice = advice_for_evaluation},
           options);
  line.add(text,
           {.name = "import",
            .description = "Weights from a directory of transformers",
            .settings = settings_of(asked->import),
            .work = [asked] { import_text_model(asked->import, domains_of_program(), spoken()); },
            .needed = {"--from"}},
           line.options());
  line.add(text,
           {.name = "export",
            .description = "A directory for transformers from weights",
            .settings = settings_of(asked->publish, options),
            .work = [asked] { export_text_model(asked->options, asked->publish, spoken()); },
            .needed = {"--weights", "--out"}},
           options);
  line.add(text,
           {.name = "merge",
            .description = "Merge adapters into ordinary weights",
            .settings = settings_of_merge(options, asked->merged),
            .work = [asked] { merge_text_model(asked->options, asked->merged, spoken()); },
            .needed = {"--weights"}},
           options);
}

}  // namespace

DomainCommands text_commands() { return {.own = add_text_commands}; }

}  // namespace accrue::app
