#include "python/training.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/cli/load_data.h"
#include "apps/cli/load_network.h"
#include "apps/cli/messages.h"
#include "apps/commands/eval.h"
#include "apps/commands/train.h"
#include "fonts/domain.h"
#include "images/domain.h"
#include "images/segmentation.h"
#include "python/arrays.h"
#include "python/call.h"
#include "python/interrupts.h"
#include "python/signatures.h"
#include "python/tokens.h"
#include "text/domain.h"
#include "train/json.h"
#include "train/score.h"
#include "train/weights.h"

namespace accrue::python {

using namespace nb::literals;

namespace {

using app::Asked;

nb::object results() { return nb::module_::import_("accrue._results"); }
nb::object from_json(const std::string& text) {
  return nb::module_::import_("json").attr("loads")(text);
}
template <class... Args>
nb::object result(const char* type, Args&&... args) {
  return results().attr(type)(std::forward<Args>(args)...);
}

// What a callback is told of a window.
class Told : public Observer {
 public:
  Told(nb::object on_step, std::atomic<int64_t>& steps)
      : on_step_(std::move(on_step)), steps_(steps) {}

  void on_step(const WindowReport& report) override {
    losses_.push_back(report.loss);
    if (report.skipped) ++skipped_;
    steps_ = std::max(steps_.load(), report.step);
    if (on_step_.is_none() || interrupts_.has_error() || is_interpreter_ending()) return;
    const nb::gil_scoped_acquire gil;
    const InCallersCode in_callers_code;
    try {
      on_step_(report);
    } catch (nb::python_error& error) {
      interrupts_.keep(std::move(error));
    }
  }

  // Once asks to finish the window, twice to roll it back.
  Stop asked() {
    const int count = interrupts_.count();
    return count > 1 ? Stop::now : count == 1 ? Stop::after_window : Stop::no;
  }

  // Throws what a signal or the callback has raised.
  void rethrow() { interrupts_.rethrow(); }
  const std::vector<double>& losses() const { return losses_; }
  int64_t skipped() const { return skipped_; }

 private:
  const nb::object on_step_;
  std::atomic<int64_t>& steps_;
  std::vector<double> losses_;
  int64_t skipped_ = 0;
  Interrupts interrupts_;
};

// Does what takes a StopRequest, and throws what a signal has raised meanwhile.
template <class Work>
void until_interrupted(const Work& work) {
  Interrupts interrupts;
  try {
    work(interrupts.stop_at_once());
  } catch (const Stopped&) {
  }
  interrupts.rethrow();
}

bool is_quiet(nb::handle quiet) {
  if (quiet.is_none()) return true;
  check(nb::isinstance<nb::bool_>(quiet), "quiet is {}: expected True or False", shown(quiet));
  return nb::cast<bool>(quiet);
}

// While alive, what the program says in this thread goes to sys.stdout and sys.stderr, or what is
// no warning nowhere. Warnings are spelt as arguments are.
class Words {
 public:
  Words(bool quiet, const Spelling& spelling) {
    before_ = app::redirect_messages([quiet, &spelling](std::string_view said, bool is_error) {
      if ((quiet && !is_error) || is_interpreter_ending()) return;
      const std::string text = is_error ? spelling.of(std::string(said)) : std::string(said);
      const nb::gil_scoped_acquire gil;
      try {
        const nb::object stream = nb::module_::import_("sys").attr(is_error ? "stderr" : "stdout");
        stream.attr("write")(nb::str(text.c_str(), text.size()));
        stream.attr("flush")();
      } catch (nb::python_error& error) {
        // Ctrl-C comes again where it can be raised.
        if (error.matches(PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();
        else error.discard_as_unraisable("accrue");
      }
    });
  }
  ~Words() { app::redirect_messages(std::move(before_)); }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

 private:
  app::MessageSink before_;
};

nb::object score_of(const Score& score) {
  return result("Score", from_json(to_json(score).dump()));
}

// What a network is asked: images, or of zi2zi with so many styles (sources, styles).
Dataset question_of(nb::handle x, SampleShape shape, std::optional<int64_t> styles) {
  if (!styles) return dataset_of(x, nb::none(), shape);
  check((nb::isinstance<nb::tuple>(x) || nb::isinstance<nb::list>(x)) && nb::len(x) == 2,
        "x has no glyphs to draw: expected (sources, styles)");
  Dataset data = glyphs_of(x[0], nb::none(), x[1]);
  data.fields[1].classes = *styles;
  return data;
}

// The answers of a model, in pieces of `micro_batch`.
nb::object answers_to(Dataset data, const Normalization& pixels, const accrue::Layer& model,
                      int64_t micro_batch, DType dtype, Device device) {
  data.fields[0].normalization = pixels;
  const ObjectivePtr objective = data.has("sources") ? glyph_drawing() : classification("images");
  Tensor all;
  until_interrupted([&](const StopRequest& stop) {
    const nb::gil_scoped_release release;
    for_each_answer(
        model, *objective, data, micro_batch, dtype, device,
        [&](const Tensor& answer, const Samples&, int64_t begin) {
          const Tensor y = as_f32(answer.detach().to(Device::cpu));
          if (!all.defined()) {
            std::vector<int64_t> sizes{data.size()};
            for (int i = 1; i < y.shape().rank(); ++i) sizes.push_back(y.size(i));
            all = Tensor::empty(Shape(sizes), DType::f32, Device::cpu, Category::data);
          }
          all.slice(begin, begin + y.size(0)).copy_from(y);
        },
        stop);
  });
  return array_of(all);
}

// What a language model that has learned from single texts answers, or from pairs of them.
enum class TextAnswers { logits, embeddings };

nb::object answers_of(nb::handle x, const LanguageModel& model, TextAnswers kind,
                      int64_t micro_batch, Device device) {
  const auto rows = tokens_of(x);
  check(rows.has_value(), "x has no tokens: expected integers [N, T], for a language model");
  Tensor all;
  until_interrupted([&](const StopRequest& stop) {
    const nb::gil_scoped_release release;
    all = (kind == TextAnswers::logits ? logits_of : embeddings_of)(*rows, model, micro_batch,
                                                                    device, stop);
  });
  return array_of(all);
}

// accrue.Trainer
class PythonTrainer {
 public:
  PythonTrainer(const Door& door, nb::handle model, nb::handle data, nb::handle test,
                nb::handle quiet, const nb::kwargs& options)
      : quiet_(is_quiet(quiet)) {
    Call call(door, options);
    call.add_model(model);
    call.add_data(data, test);
    shape_ = call.sample_shape();
    const Words words(quiet_, call.spelling());
    call.run([&](Asked& asked) {
      run_ = std::make_unique<app::TrainingRun>(asked.options, call.held_before());
    });
    spelling_ = call.spelling();
    steps_ = run_->trainer().training().steps();
  }
  PythonTrainer(const PythonTrainer&) = delete;
  PythonTrainer& operator=(const PythonTrainer&) = delete;
  ~PythonTrainer() {
    if (is_interpreter_ending()) return;  // which this thread would not get back
    const nb::gil_scoped_release release;
    run_.reset();
  }

  // With the weights' own elements for those who let go of this trainer.
  nb::object run(nb::object on_step, Elements elements) {
    const Use use(*this, Use::runs);
    check(on_step.is_none() || PyCallable_Check(on_step.ptr()),
          "on_step is {}: expected a function of a Step", shown(on_step));
    Told told(std::move(on_step), steps_);
    try {
      const Words words(quiet_, spelling_);
      const nb::gil_scoped_release release;
      spelling_.in([&] { run_->run([&] { return told.asked(); }, &told, app::WhenStopped::end); });
    } catch (const Stopped&) {
    }
    steps_ = trainer().training().steps();
    losses_.insert(losses_.end(), told.losses().begin(), told.losses().end());
    skipped_ += told.skipped();
    told.rethrow();
    return result("Result", "losses"_a = losses(), "score"_a = score(), "steps"_a = steps(),
                  "weights"_a = weights(elements), "memory"_a = memory(),
                  "batches"_a = trainer().training().batches().describe(),
                  "skipped_windows"_a = skipped_,
                  "scored"_a = run_->data().test.is_trained_on ? "training" : "test");
  }

  nb::object losses() const { return nb::module_::import_("numpy").attr("array")(losses_); }
  // Other threads may ask for these two while it runs.
  int64_t steps() const { return steps_; }
  bool is_finished() const {
    return (!user_ || *user_ == std::this_thread::get_id()) && trainer().is_finished();
  }
  nb::object score() const {
    return run_->score_on_test() ? score_of(*run_->score_on_test()) : nb::none();
  }
  nb::object memory() const {
    const Use use(*this);
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    for (const auto& [name, peak] : run_->peaks()) json[name] = with_total(peak);
    return result("Memory", from_json(json.dump()));
  }
  nb::object weights(Elements elements) const {
    const Use use(*this);
    nb::dict metadata;
    for (const auto& [key, value] : run_->trainer().options().weights_metadata())
      metadata[key.c_str()] = value;
    return result(
        "Weights",
        arrays_of(on_cpu(named_tensors(run_->trainer().training().parameters())), elements),
        metadata);
  }
  void set_weights(const nb::dict& arrays) {
    const Use use(*this);
    Training& training = trainer().training();
    const NamedTensors given = tensors_of(arrays);
    check_weights_fit("what is assigned to weights", given, training.parameters());
    const std::map<std::string, Tensor> by_name(given.begin(), given.end());
    for (auto& [name, tensor] : named_tensors(training.parameters()))
      Tensor(tensor).copy_from(by_name.at(name));
    training.window().restored();
  }
  void save_weights(nb::handle path) {
    const Use use(*this);
    const std::string name = path_of(path, "path");
    check(!name.empty(), "path is empty: expected a file");
    const nb::gil_scoped_release release;
    trainer().save_weights(name);
  }
  nb::object evaluate(nb::handle data) {
    const Use use(*this);
    if (data.is_none()) return score_on(run_->data().test);
    if (const auto tokens = tokens_of(data)) return score_on(rows_in(*tokens));
    Dataset set = dataset_of(data, "data", shape_);
    check_inputs(set);
    set.fields[0].normalization = run_->options().pixels;
    if (const auto ignored = run_->options().domains.get<Images>().ignore_mask;
        ignored && set.has("masks"))
      ignore_value(set.fields[1], static_cast<uint8_t>(*ignored));
    for (Field& field : set.fields)
      if (run_->data().train.has(field.name))
        field.classes = std::max(field.classes, run_->data().train.field(field.name).classes);
    crop(set);
    return score_on(set);
  }
  nb::object predict(nb::handle x) {
    const Use use(*this);
    Training& training = trainer().training();
    if (const auto* const model = dynamic_cast<const LanguageModel*>(&training.model()))
      return answers_of(
          x, *model,
          training.objective().is_of_window() ? TextAnswers::embeddings : TextAnswers::logits,
          training.batches().micro, run_->device());
    const auto* const generator = dynamic_cast<const Zi2ziGenerator*>(&training.model());
    const auto styles = generator ? std::optional(generator->options().styles) : std::nullopt;
    Dataset question = question_of(x, shape_, styles);
    check_inputs(question);
    crop(question);
    return answers_to(std::move(question), run_->options().pixels, training.model(),
                      training.batches().micro, training.parameters().compute_dtype(),
                      run_->device());
  }

  nb::object evaluate_spelt(nb::handle data) {
    return spelt([&] { return evaluate(data); });
  }
  nb::object predict_spelt(nb::handle x) {
    return spelt([&] { return predict(x); });
  }

 private:
  template <class Work>
  nb::object spelt(const Work& work) const {
    nb::object result;
    spelling_.in([&] { result = work(); });
    return result;
  }
  // While alive, this thread uses the trainer, which no other may then. What a run calls back may
  // look at it, but not run it.
  class Use {
   public:
    enum Kind { looks, runs };
    explicit Use(const PythonTrainer& trainer, Kind kind = looks)
        : trainer_(trainer), before_(trainer.user_) {
      const auto here = std::this_thread::get_id();
      check(!before_ || *before_ == here,
            "this Trainer is in use by another thread: expected one thread at a time, or a Trainer "
            "for each");
      check(!before_ || kind == looks,
            "this Trainer runs already, and calls this: expected run() after it has returned");
      trainer_.user_ = here;
    }
    ~Use() { trainer_.user_ = before_; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    const AtWork at_work_;
    const PythonTrainer& trainer_;
    const std::optional<std::thread::id> before_;
  };

  Trainer& trainer() const { return run_->trainer(); }
  void check_inputs(const Dataset& data) const {
    using enum app::Inputs;
    const Encoding seen = run_->data().train.fields[0].encoding;
    const auto learned = seen == Encoding::number  ? as_given
                         : seen == Encoding::pixel ? pixels
                                                   : unknown;
    app::check_inputs(data, learned, "the trainer's network", run_->options());
  }
  // As the samples for the score are.
  void crop(Dataset& data) const {
    const Dataset& test = run_->data().test;
    if (!test.fields.empty() && test.fields[0].crop) data.crop_to(*test.fields[0].crop);
  }
  nb::object score_on(const Dataset& data) {
    Score score;
    until_interrupted([&](const StopRequest& stop) {
      const nb::gil_scoped_release release;
      score = trainer().evaluate(data, stop);
    });
    return score_of(score);
  }
  Dataset rows_in(const Tokens& tokens) {
    const auto* const model = dynamic_cast<const LanguageModel*>(&trainer().training().model());
    check(model, "data has tokens, but the network is no language model: expected (x, y)");
    check_tokens(*tokens.corpus, model->head().size(0));
    const Text& text = run_->options().domains.get<Text>();
    if (const auto answers = count_answers({tokens.corpus, nullptr}, text.rows);
        answers.longer > 0) {
      const Words words(quiet_, spelling_);
      app::say_error("warning: {}\n", text.said_of(answers));
    }
    return rows_of({tokens.corpus, tokens.corpus}, text.rows).test;
  }

  const bool quiet_;
  SampleShape shape_ = SampleShape::image;
  std::unique_ptr<app::TrainingRun> run_;
  Spelling spelling_;
  std::vector<double> losses_;
  int64_t skipped_ = 0;
  std::atomic<int64_t> steps_ = 0;
  mutable std::optional<std::thread::id> user_;
};

const Door train_door{.function = "train", .command = "train", .own = {"model", "data"}};
const Door trainer_door{.function = "Trainer", .command = "train", .own = {"model", "data"}};
const Door plan_door{
    .function = "plan", .command = "plan", .own = {"model", "data"}, .without = {"json"}};
const Door info_door{.function = "info",
                     .command = "info",
                     .own = {"model"},
                     .without = {"json"},
                     .has_vocabulary = false};
const Door evaluate_door{.function = "evaluate",
                         .command = "eval",
                         .own = {"model", "data", "init"},
                         .without = {"json"},
                         .has_vocabulary = false,
                         .weights = "weights"};
// It has arrays alone, and nothing to score.
const Door predict_door{
    .function = "predict",
    .command = "eval",
    .own = {"model", "init"},
    .without = {"data",           "json",        "split",       "image-size",
                "hold-out",       "skip-bad",    "cache",       "loss",
                "class-weights",  "classes",     "ignore-mask", "temperature",
                "data-dir",       "context",     "documents",   "long",
                "tokenizer",      "chat",        "field",       "text-may-contain-control",
                "sequence-piece", "rank-timeout"},
    .has_vocabulary = false,
    .weights = "weights"};

nb::object train(nb::handle model, nb::handle data, nb::handle test, nb::object on_step,
                 nb::handle quiet, const nb::kwargs& options) {
  const AtWork at_work;
  return PythonTrainer(train_door, model, data, test, quiet, options)
      .run(std::move(on_step), Elements::own);
}

nb::object plan(nb::handle model, nb::handle data, const nb::kwargs& options) {
  const AtWork at_work;
  Call call(plan_door, options);
  call.add_model(model);
  call.add_data(data, nb::none());
  const Words words(true, call.spelling());
  std::string json;
  call.run([&](Asked& asked) { json = app::plan(asked.options, asked.plan); });
  return result("Plan", from_json(json));
}

nb::object info(nb::handle model, const nb::kwargs& options) {
  const AtWork at_work;
  Call call(info_door, options);
  call.add_model(model);
  const Words words(true, call.spelling());
  std::string json;
  call.run([&](Asked& asked) { json = app::info(asked.options, asked.info); });
  return result("Info", from_json(json));
}

nb::object evaluate(nb::handle weights, nb::handle model, nb::handle data,
                    const nb::kwargs& options) {
  const AtWork at_work;
  Call call(evaluate_door, options);
  call.add_weights(weights);
  call.add_model(model);
  call.add_data(data, nb::none());
  if (call.has_arrays()) {
    check(!call.has("split"), "split is for data sets alone: expected no split of arrays");
    call.add("split", nb::str("test"));
  }
  const Words words(true, call.spelling());
  std::string json;
  until_interrupted([&](const StopRequest& stop) {
    call.run([&](Asked& asked) { json = app::eval(asked.options, stop); });
  });
  const nb::object scores = from_json(json);
  return call.has_arrays() ? result("Score", scores["test"]) : result("Scores", scores);
}

// A network that was trained on crops sees the images' middle, unless it answers with masks. Throws
// Error for images of other channels than it has learned.
void see_as_trained(Dataset& data, const app::Options& options) {
  DomainModel model = options.domains.model(options.model_name);
  const Metadata said = read_safetensors_metadata(options.weights);
  const Shape &here = data.fields.front().values.shape(), &known = options.network.image;
  check(!said.contains("image") || here.rank() != 4 || known.rank() != 3 || here[1] == known[0],
        "x is {}, images of {}, but {} has learned those of {}: expected [N, {}, H, W]", here,
        counted(here[1], "channel"), options.weights, known[0], known[0]);
  if (const auto answers = said.find("answers"); answers != said.end())
    model.fields.back().name = answers->second;
  Datasets both{.train = {}, .test = std::move(data)};
  crop(both, model, options.request(DataUse::prediction));
  data = std::move(both.test);
}

nb::object predict(nb::handle weights, nb::handle x, nb::handle model, const nb::kwargs& options) {
  const AtWork at_work;
  Call call(predict_door, options);
  call.add_weights(weights);
  call.add_model(model);
  const Words words(true, call.spelling());
  nb::object y;
  call.run([&](Asked& asked) {
    const app::Options& o = asked.options;
    const Device device = app::apply_machine_options(o);
    const nb::gil_scoped_acquire gil;
    if (tokens_of(x) && o.class_count_of_weights) {
      const app::LoadedNetwork network = load_network(o, o.network, device);
      const auto* const text = dynamic_cast<const Text*>(&o.domains.of_model(o.model_name));
      y = answers_of(x, dynamic_cast<const LanguageModel&>(*network.model),
                     text && text->embeds() ? TextAnswers::embeddings : TextAnswers::logits,
                     o.micro_batch, device);
      return;
    }
    const bool draws = dynamic_cast<const Fonts*>(&o.domains.of_model(o.model_name)) != nullptr;
    Dataset data = question_of(x, call.sample_shape(),
                               draws ? std::optional(o.network.classes) : std::nullopt);
    for (const char* name : {"mean", "std"})
      if (o.given.contains(name)) data.check_pixels(fmt::format("--{}", name));
    app::check_inputs(data, o.inputs_of_weights, o.weights, o);
    see_as_trained(data, o);
    const app::LoadedNetwork network = load_network(o, o.model_for(data), device);
    y = answers_to(std::move(data), o.pixels, *network.model, o.micro_batch,
                   network.parameters.compute_dtype(), device);
  });
  return y;
}

nb::tuple read_weights(nb::handle path) {
  Metadata said;
  const NamedTensors tensors =
      read_safetensors(text_of(path), Category::parameters, &said, is_weight);
  nb::dict metadata;
  for (const auto& [key, value] : said) metadata[key.c_str()] = value;
  return nb::make_tuple(arrays_of(tensors), metadata);
}

void write_weights(nb::handle path, const nb::dict& arrays, const nb::dict& metadata) {
  Metadata said;
  for (const auto& [key, value] : metadata) said[text_of(key)] = text_of(value);
  write_safetensors(text_of(path), tensors_of(arrays), said);
}

}  // namespace

void add_training(nb::module_& m) {
  nb::class_<WindowReport>(m, "Step", "The outcome of a window: one optimizer step, or none.")
      .def_ro("step", &WindowReport::step, "Optimizer steps taken so far, this one included.")
      .def_ro("epoch", &WindowReport::epoch, "From 0.")
      .def_ro("window", &WindowReport::window, "From 0, over all epochs.")
      .def_ro("micro_batches", &WindowReport::micro_batches, "In this window.")
      .def_ro("samples", &WindowReport::samples, "In this window.")
      .def_ro("loss", &WindowReport::loss, "The mean over the window.")
      .def_ro("grad_norm", &WindowReport::grad_norm,
              "Of the mean gradient, before clipping; NaN with strategies that keep none.")
      .def_ro("lr", &WindowReport::lr, "The learning rate.")
      .def_ro("loss_scale", &WindowReport::loss_scale)
      .def_ro("noise_scale", &WindowReport::noise_scale,
              "In what the loss is a mean over: tokens, judged pixels, else samples; NaN while "
              "unknown.")
      .def_ro("skipped", &WindowReport::skipped, "True if nothing was changed.")
      .def_ro("player", &WindowReport::player, "The network's name, of several.")
      .def("__repr__", [](const WindowReport& r) {
        return fmt::format("Step(step={}, loss={:.6g}, grad_norm={:.4g}, lr={:.4g}, samples={})",
                           r.step, r.loss, r.grad_norm, r.lr, r.samples);
      });

  const std::string data =
      "model: a name (below), a language model's config.json, a GGUF file (with lora=), or a "
      "network\nof layers (Sequential).\n"
      "data: a name or a directory (below), or (x, y): x float32 [N, ...], or uint8 [N, H, W] or\n"
      "[N, C, H, W], pixels from 0 to 255; y integers [N], classes from 0 on, float32 [N, ...], "
      "or\n"
      "masks: integers [N, H, W], each pixel's class, or bool [N, H, W] or [N, K, H, W].\n"
      "Of language models tokens, integers: [L], a document; [N, T], rows; or a list of documents "
      "[L].\n"
      "(tokens, learned) says, bool of the same shape, which are to be learned, not only read.\n"
      "Of zi2zi (sources, targets, styles): glyphs [N, S, S], as x, and integers [N].\n"
      "NumPy's arrays and anything with DLPack; float32, uint8 and int32, of tokens also 16 bits, "
      "in C\n"
      "order are not copied and must not change meanwhile.\n";
  const std::string vocabulary =
      "vocabulary: of data that are tokens; without it it ends with the largest.\n";
  app::Asked asked;
  const auto settings = app::settings_of_commands(asked);
  const auto of = [&](const Door& door, const std::string& definition, const std::string& returned,
                      const std::string& text) {
    return about(door, settings.at(door.command), definition, returned, text);
  };
  const std::string trained =
      "test: as data, for the score; without it that is of the training data.\n"
      "quiet: False prints what the program prints.\n" +
      vocabulary;

  const About of_trainer =
      of(trainer_door,
         "def __init__(self, model: str | Layer | None = None, data: typing.Any = None, *, test: "
         "typing.Any = None, quiet: bool = True, vocabulary: int | None = None",
         "None", "A training that can be run, looked at and run again.\n\n" + data + trained);
  nb::class_<PythonTrainer>(m, "Trainer", "A training that can be run, looked at and run again.")
      .def(
          "__init__",
          [](PythonTrainer* self, nb::handle model, nb::handle data, nb::handle test,
             nb::handle quiet, const nb::kwargs& rest) {
            const AtWork at_work;
            new (self) PythonTrainer(trainer_door, model, data, test, quiet, rest);
          },
          "model"_a = nb::none(), "data"_a = nb::none(), nb::kw_only(), "test"_a = nb::none(),
          "quiet"_a.none() = true, "options"_a, nb::sig(of_trainer.signature), of_trainer.doc)
      .def(
          "run",
          [](PythonTrainer& self, nb::object on_step) {
            return self.run(std::move(on_step), Elements::copied);
          },
          "on_step"_a = nb::none(),
          "Trains to the end. Ctrl-C ends it after the window under way, with a checkpoint if\n"
          "there is a checkpoint_dir, and raises KeyboardInterrupt; run() then goes on.",
          nb::sig("def run(self, on_step: typing.Callable[[Step], typing.Any] | None = None) -> "
                  "accrue._results.Result"))
      .def("evaluate", &PythonTrainer::evaluate_spelt, "data"_a = nb::none(),
           "The score on arrays (x, y) or tokens, by default on the test data.",
           nb::sig("def evaluate(self, data: typing.Any = None) -> accrue._results.Score"))
      .def("predict", &PythonTrainer::predict_spelt, "x"_a.none(),
           "The network's answers to x [N, ...], float32 [N, ...]: for classes their logits, for "
           "rows of\n"
           "tokens [N, T] those of the next ones, [N, T, vocabulary]. zi2zi draws (sources, "
           "styles).",
           nb::sig("def predict(self, x: typing.Any) -> numpy.ndarray"))
      .def("save_weights", &PythonTrainer::save_weights, "path"_a.none(),
           "Writes a safetensors file with PyTorch's names.",
           nb::sig("def save_weights(self, path: str | os.PathLike[str]) -> None"))
      .def_prop_rw(
          "weights", [](const PythonTrainer& self) { return self.weights(Elements::copied); },
          &PythonTrainer::set_weights,
          "float32 arrays by name: a copy of the weights as they are now. Others that are "
          "assigned\n"
          "take their place, and the optimizer goes on with its moments.",
          nb::for_getter(nb::sig("def weights(self) -> accrue._results.Weights")),
          nb::for_setter(nb::sig("def weights(self, arrays: dict[str, typing.Any], /) -> None")))
      .def_prop_ro(
          "losses", &PythonTrainer::losses,
          "Of the windows that this trainer has run, float64: not of those before it resumed.",
          nb::sig("def losses(self) -> numpy.ndarray"))
      .def_prop_ro("memory", &PythonTrainer::memory, "Peaks in bytes, by category.",
                   nb::sig("def memory(self) -> accrue._results.Memory"))
      .def_prop_ro("steps", &PythonTrainer::steps, "Optimizer steps taken.")
      .def_prop_ro("is_finished", &PythonTrainer::is_finished);

  const About of_train = of(
      train_door,
      "def train(model: str | Layer | None = None, data: typing.Any = None, *, test: typing.Any = "
      "None, on_step: typing.Callable[[Step], typing.Any] | None = None, quiet: bool = True, "
      "vocabulary: int | None = None",
      "accrue._results.Result",
      "Trains a network.\n\n" + data + trained +
          "on_step: called with each window's Step, up to a few windows later. What it raises "
          "ends\n"
          "the training after a whole window. So does Ctrl-C, with a checkpoint in "
          "checkpoint_dir.\n");
  m.def("train", &train, "model"_a = nb::none(), "data"_a = nb::none(), nb::kw_only(),
        "test"_a = nb::none(), "on_step"_a = nb::none(), "quiet"_a.none() = true, "options"_a,
        nb::sig(of_train.signature), of_train.doc);

  const About of_plan =
      of(plan_door,
         "def plan(model: str | Layer | None = None, data: typing.Any = None, *, vocabulary: "
         "int | None "
         "= None",
         "accrue._results.Plan",
         "The largest micro-batch that fits in `memory` (\"4GiB\"), and what else would.\n\n" +
             data + vocabulary);
  m.def("plan", &plan, "model"_a = nb::none(), "data"_a = nb::none(), "options"_a,
        nb::sig(of_plan.signature), of_plan.doc);

  const About of_info = of(info_door, "def info(model: str | Layer | None = None, *",
                           "accrue._results.Info", "The build, the machine and a model's layers.");
  m.def("info", &info, "model"_a = nb::none(), "options"_a, nb::sig(of_info.signature),
        of_info.doc);

  const std::string weights = "weights: a safetensors file, or Weights.\n";
  const About of_evaluate =
      of(evaluate_door,
         "def evaluate(weights: typing.Any, model: str | Layer | None = None, data: typing.Any "
         "= None, "
         "*",
         "accrue._results.Score | accrue._results.Scores",
         "The score of weights on arrays, or on parts of a data set (split).\n\n" + weights + data);
  m.def("evaluate", &evaluate, "weights"_a.none(), "model"_a = nb::none(), "data"_a = nb::none(),
        "options"_a, nb::sig(of_evaluate.signature), of_evaluate.doc);

  const About of_predict =
      of(predict_door,
         "def predict(weights: typing.Any, x: typing.Any, model: str | Layer | None = None, *",
         "numpy.ndarray",
         "A network's answers to x [N, ...], float32 [N, ...]: for classes their logits, for rows "
         "of tokens\n[N, T] those of the next ones, [N, T, vocabulary]; where it has learned from "
         "pairs of texts,\nembeddings [N, E] of documents of any lengths. zi2zi draws (sources, "
         "styles).\n\n" +
             weights + data);
  m.def("predict", &predict, "weights"_a.none(), "x"_a.none(), "model"_a = nb::none(), "options"_a,
        nb::sig(of_predict.signature), of_predict.doc);

  m.def("_read_weights", &read_weights, "path"_a);
  m.def("_write_weights", &write_weights, "path"_a, "arrays"_a, "metadata"_a);
}

}  // namespace accrue::python
