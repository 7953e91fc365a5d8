#pragma once

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/commands/eval.h"
#include "apps/commands/progress.h"
#include "apps/commands/train.h"
#include "core/host_blocks.h"
#include "images/domain.h"
#include "images/segmentation.h"
#include "python/answers.h"
#include "python/call.h"
#include "python/history.h"
#include "python/listener.h"
#include "python/named_data.h"
#include "python/working.h"
#include "text/domain.h"
#include "train/json.h"
#include "train/weights.h"

namespace accrue::python {

using namespace nb::literals;

// accrue.Trainer
class PythonTrainer {
 public:
  // `validation` is scored while it trains, by default after each epoch, and `test` at the end.
  PythonTrainer(const Door& door, nb::handle model, nb::handle data, nb::handle test,
                nb::handle validation, nb::handle quiet, const nb::kwargs& options,
                bool keeps_best = false)
      : quiet_(is_quiet(quiet)), has_validation_(!validation.is_none()) {
    Call call(door, options);
    call.add_model(model);
    if (has_validation_) call.add_validation(data, validation);
    else call.add_data(data, test);
    if (has_validation_) test_ = nb::borrow(test);
    taken_ = call.taken();
    if (call.given().network) network_ = *call.given().network;
    has_names_ = call.given().has_names;
    const Words words(quiet_, call.spelling());
    ranks_ = call.run([&](app::AskedOfNetworks& asked) {
      job_ = std::make_unique<Job>(ResolvedRequest{asked.options}, app::spoken(),
                                   app::services_for(asked.options));
      run_.reset(new TrainingRun(job_->train(call.held_before())));
    });
    spelling_ = call.spelling();
    steps_ = run_->trainer().training().steps();
    total_steps_ = run_->trainer().total_steps();
    keeps_best_ = keeps_best || run_->trainer().options().keep_best;
    check(!keeps_best_ || run_->trainer().options().eval_every,
          "keep_best keeps the weights of the best score, but nothing is scored on the way: "
          "expected validation=(x, y), or eval_every");
    spelling_.in([&] {
      if (!run_->data().test.is_trained_on && call.has_arrays())
        check_scored(run_->data().test, has_validation_ ? "validation" : "test");
      if (!test_.is_none()) check_test();
    });
  }
  PythonTrainer(const PythonTrainer&) = delete;
  PythonTrainer& operator=(const PythonTrainer&) = delete;
  ~PythonTrainer() {
    if (is_interpreter_ending()) return;  // this thread could not acquire the GIL again
    const nb::gil_scoped_release release;
    run_.reset();
  }

  // Tells `told` (RunListener). Elements::own is for callers that let go of this trainer
  // afterwards. With `epochs` the run ends with this number of further epochs, the one under way
  // included.
  nb::object run(nb::object told, std::optional<int64_t> epochs, Elements elements) {
    const Use use(*this, Use::runs);
    spelling_.in([&] { go_on_for(epochs); });
    RunListener listener(told, history_, steps_, *run_, epochs);
    if (keeps_best_) listener.keep_best([this] { best_ = weights(Elements::copied); });
    if (!told.is_none()) told.attr("begin")(steps(), total_steps_);
    try {
      const Words words(quiet_, spelling_);
      const nb::gil_scoped_release release;
      spelling_.in([&] {
        app::Progress progress(*run_);
        run_->run(
            {&progress, &listener}, [&] { return listener.asked(); }, WhenStopped::end);
      });
    } catch (const Stopped&) {
    }
    steps_ = trainer().training().steps();
    listener.rethrow();
    nb::object scored = score();
    const bool is_on_test = !test_.is_none() && !scored.is_none();
    if (is_on_test) scored = evaluate_spelt(test_);
    // The copy of the weights takes the place of activations, not memory beside theirs.
    if (elements == Elements::copied) host_blocks().release_cached();
    return result("Result", "losses"_a = losses(), "score"_a = scored, "steps"_a = steps(),
                  "weights"_a = weights(elements), "memory"_a = memory(),
                  "batches"_a = trainer().training().batches().describe(),
                  "skipped_windows"_a = history_.skipped(),
                  "scored"_a = is_on_test                        ? "test"
                               : has_validation_                 ? "validation"
                               : run_->data().test.is_trained_on ? "training"
                                                                 : "test",
                  "history"_a = history(), "ema_weights"_a = average(), "best_weights"_a = best_);
  }

  nb::object losses() const { return history_.losses(); }
  nb::object history() const {
    const RunResults& results = run_->recorder().results();
    return history_.to_python(results.pieces, results.pieces_of_sample);
  }
  int64_t total_steps() const { return total_steps_; }
  // Other threads may call these two during run().
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
  // The weights' moving average; None if there is none.
  nb::object average() {
    if (!trainer().options().ema || trainer().training().window().steps() == 0) return nb::none();
    Window& window = trainer().training().window();
    window.exchange_averages();
    nb::object all = weights(Elements::copied);
    window.exchange_averages();
    return all;
  }
  void save_state(const std::string& directory) {
    const Use use(*this);
    const nb::gil_scoped_release release;
    trainer().save_state(directory);
  }
  void restore_state(const std::string& directory) {
    const Use use(*this);
    const nb::gil_scoped_release release;
    trainer().restore_state(directory);
    steps_ = trainer().training().steps();
  }
  void set_weights(const nb::dict& arrays) {
    const Use use(*this);
    Training& training = trainer().training();
    assign(arrays, "what is assigned to weights", training.parameters());
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
    if (data.is_none() && !test_.is_none()) return evaluate(test_);
    if (data.is_none()) return score_on(run_->data().test);
    if (are_written_texts(data)) return score_on(rows_of_texts(data));
    if (has_names_) return score_on(named_rows_in(data));
    if (const auto tokens = tokens_of(data)) return score_on(rows_in(*tokens));
    return score_on(samples_in(data));
  }
  nb::object predict(nb::handle x) {
    const Use use(*this);
    return answers_to_all(x, trainer().training().batches().micro,
                          [&](nb::handle some) { return answers_to_some(some); });
  }

  nb::object evaluate_spelt(nb::handle data) {
    return spelt([&] { return evaluate(data); });
  }
  nb::object predict_spelt(nb::handle x) {
    return spelt([&] { return predict(x); });
  }

 private:
  nb::object answers_to_some(nb::handle x) {
    Training& training = trainer().training();
    if (const auto* const model = LanguageModel::in(training.model()))
      return answers_of(
          x, *model,
          training.objective().is_of_window() ? TextAnswers::embeddings : TextAnswers::logits,
          training.batches().micro, run_->device());
    const Request& o = run_->request();
    if (network_ && has_named_answers(x, *network_)) {
      Dataset question = question_by_name(x, network_->inputs);
      check_inputs(question);
      return answers_by_name(std::move(question), o.domains.pixels(), training.model(),
                             training.batches().micro, training.parameters().compute_dtype(),
                             run_->device());
    }
    Dataset question =
        question_of(x, taken_as_trained(), o.sample_in(run_->data().train).classes_seen());
    check_inputs(question);
    crop(question);
    return answers_to(std::move(question), run_->request().domains.pixels(), training.model(),
                      training.batches().micro, training.parameters().compute_dtype(),
                      run_->device());
  }
  template <class Work>
  nb::object spelt(const Work& work) const {
    nb::object result;
    spelling_.in([&] { result = work(); });
    return result;
  }
  // While alive, this thread uses the trainer, and no other thread may. Callbacks of a run may look
  // at the trainer, but not run it.
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
            "this Trainer runs already, and its callback calls run(): expected run() to return "
            "first");
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
  void go_on_for(std::optional<int64_t> epochs) {
    TrainingOptions options = trainer().options();
    if (epochs) {
      check(*epochs > 0, "epochs is {}: expected 1 or more", *epochs);
      options.epochs = trainer().epochs() + *epochs;
      check(
          !trainer().has_stopped_early(),
          "epochs is {}, but patience={} has ended this training: expected a Trainer with a larger "
          "patience, or without it, and init=",
          *epochs, *trainer().options().patience);
      if (options.epochs > trainer().options().epochs) trainer().set_epochs(options.epochs);
    }
    total_steps_ = options.total_steps(run_->data().train.size());
  }
  // Images of as many channels as those that it has learned.
  Taken taken_as_trained() const {
    const Shape& learned = run_->data().train.fields[0].values.shape();
    if (learned.rank() != 4) return {taken_.shape};
    return {taken_.shape, [C = learned[1]](const Shape& images) { return images[1] == C; }};
  }
  void check_inputs(const Dataset& data) const {
    using enum Inputs;
    const std::vector<Field>& seen = run_->data().train.fields;
    const bool sees_pixels =
        std::ranges::find(seen, Encoding::pixel, &Field::encoding) != seen.end();
    const auto learned = sees_pixels                            ? pixels
                         : seen[0].encoding == Encoding::number ? as_given
                                                                : unknown;
    accrue::check_inputs(data, learned, "the trainer's network", run_->request());
  }
  // Crops the samples like the test data.
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
  // The samples that are scored at the end, beside validation, must fit before the training begins.
  void check_test() {
    if (has_names_) {
      named_rows_in(test_);
      return;
    }
    if (are_written_texts(test_)) {
      rows_of_texts(test_);
      return;
    }
    if (const auto tokens = tokens_of(test_)) {
      rows_in(*tokens);
      return;
    }
    check_scored(samples_in(test_, "test"), "test");
  }
  // Samples that are scored must be such that the network answers to.
  void check_scored(const Dataset& scored, const char* what) const {
    check(scored.size() > 0, "{} has no samples: expected some", what);
    const Dataset& train = run_->data().train;
    for (const Field& field : train.fields)
      check(scored.has(field.name),
            "data has {}, but {} has none: expected arrays of the same kinds", field.name, what);
    if (has_names_ || !train.has("images")) return;
    const Shape &seen = train.fields[0].values.shape(), &x = scored.fields[0].values.shape();
    const Request& o = run_->request();
    const ModelFactory make = network_ ? network_->make : o.factory(o.sample_in(train));
    const auto learned = shape_of_answers(make, seen), answer = shape_of_answers(make, x);
    check(!learned || answer,
          "{} has x {}, which the network does not take: expected samples like the data's, x {}",
          what, x, seen);
    if (!learned || learned->rank() < 2) return;
    for (const char* name : {"labels", "masks"}) {
      if (!scored.has(name) || scored.field(name).encoding != Encoding::index) continue;
      const int64_t classes = scored.field(name).classes,
                    known = classes_told_apart(*learned, scored.field(name));
      check(classes <= known,
            "{} has the label {}, but the network tells {} classes apart: expected smaller labels",
            what, classes - 1, known);
    }
  }
  Dataset samples_in(nb::handle data, const char* what = "data") {
    Dataset set = dataset_of(data, what, taken_as_trained());
    round_numbers(set, trainer().training().parameters().compute_dtype());
    check_inputs(set);
    set.fields[0].normalization = run_->request().domains.pixels();
    if (const auto ignored = run_->request().domains.get<Images>().ignore_mask;
        ignored && set.has("masks"))
      ignore_value(set.fields[1], static_cast<uint8_t>(*ignored));
    for (Field& field : set.fields)
      if (run_->data().train.has(field.name))
        field.classes = std::max(field.classes, run_->data().train.field(field.name).classes);
    if (run_->data().train.has("weights")) set.fields.push_back(even_weights(set.size()));
    crop(set);
    return set;
  }
  // Samples that are only scored count alike.
  Dataset named_rows_in(nb::handle data) {
    check(are_named(data), "data has no names, but the trainer's has: expected a dictionary");
    Dataset set = dataset_by_name(data, "data", network_->inputs, TakesTargets::yes);
    round_numbers(set, trainer().training().parameters().compute_dtype());
    check_inputs(set);
    for (const Field& learned : run_->data().train.fields) {
      if (learned.encoding == Encoding::weight) {
        set.fields.push_back(even_weights(set.size()));
        set.fields.back().name = learned.name;
      }
      for (Field& field : set.fields)
        if (field.name == learned.name) field.classes = std::max(field.classes, learned.classes);
    }
    for (Field& field : set.fields) field.normalization = run_->request().domains.pixels();
    return set;
  }
  Dataset rows_of_texts(nb::handle path) {
    const Request& o = run_->request();
    const Text* const text = o.domains.of_model_as<Text>(o.model_name);
    check(text, "data has texts, but the network is no language model: expected (x, y)");
    return rows_in({text->corpus_like(o.data, nb::cast<std::string>(path)), {}});
  }
  Dataset rows_in(const Tokens& tokens) {
    const auto* const model = LanguageModel::in(trainer().training().model());
    check(model, "data has tokens, but the network is no language model: expected (x, y)");
    check_tokens(*tokens.corpus, model->head().size(0));
    const Text& text = run_->request().domains.get<Text>();
    if (const auto answers = count_answers({tokens.corpus, nullptr}, text.rows);
        answers.longer > 0) {
      const Words words(quiet_, spelling_);
      app::say_error("warning: {}\n", text.said_of(answers));
    }
    Dataset set = rows_of({tokens.corpus, tokens.corpus}, text.rows).test;
    check_texts(set);
    return set;
  }
  // Samples of several texts must be of the same kind as the trainer's, and tell which of their
  // texts are equal if the trainer's do.
  void check_texts(Dataset& set) const {
    const Dataset& learned = run_->data().train;
    check(kind_of_texts(set) == kind_of_texts(learned),
          "data is {}, but the trainer's is {}: expected the same kind", kind_of_texts(set),
          kind_of_texts(learned));
    if (learned.has("texts") == set.has("texts")) return;
    if (learned.has("texts")) {
      const Shape shape = learned["texts"].shape().with(0, set.size());
      const std::vector<int32_t> none(static_cast<size_t>(shape.numel()));
      set.fields.push_back({.name = "texts",
                            .values = Tensor::from(none, shape, Device::cpu),
                            .encoding = Encoding::index,
                            .classes = text_digit});
    } else if (const int64_t equal = samples_with_equal_positives(set); equal > 0) {
      const Words words(quiet_, spelling_);
      app::say_error(
          "warning: {} of {} samples have a positive that is also another sample's, which counts "
          "as a wrong answer here, because no texts of the training are equal: expected each text "
          "once\n",
          equal, set.size());
    }
  }
  static std::string kind_of_texts(const Dataset& data) {
    if (data.has("answers")) return "preferences";
    if (!data.has("lengths")) return "texts or tokens";
    return data["lengths"].size(1) == 2 ? "pairs of texts" : "triples of texts";
  }

  const bool quiet_, has_validation_;
  nb::object test_ = nb::none();  // with validation: what is scored at the end
  Taken taken_;
  std::optional<Given::Network> network_;
  bool has_names_ = false;
  std::shared_ptr<Ranks> ranks_;
  std::unique_ptr<Job> job_;
  std::unique_ptr<TrainingRun> run_;
  Spelling spelling_;
  History history_;
  bool keeps_best_ = false;
  nb::object best_ = nb::none();
  int64_t total_steps_ = 0;  // of the latest run
  std::atomic<int64_t> steps_ = 0;
  mutable std::optional<std::thread::id> user_;
};

}  // namespace accrue::python
