#include "python/training.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "apps/commands/eval.h"
#include "apps/commands/export.h"
#include "core/cuda.h"
#include "core/host_blocks.h"
#include "images/image_folder.h"
#include "job/load_data.h"
#include "job/load_network.h"
#include "job/machine.h"
#include "python/answers.h"
#include "python/arrays.h"
#include "python/call.h"
#include "python/fetched.h"
#include "python/signatures.h"
#include "python/tokens.h"
#include "python/trainer.h"
#include "python/working.h"
#include "tables/domain.h"
#include "text/domain.h"
#include "train/weights.h"

namespace accrue::python {

using namespace nb::literals;

namespace {

using Asked = app::AskedOfNetworks;

const Door train_door{.function = "train", .command = "train", .own = {"model", "data"}};
const Door trainer_door{.function = "Trainer", .command = "train", .own = {"model", "data"}};
const Door plan_door{
    .function = "plan", .command = "plan", .own = {"model", "data"}, .gives = Gives::json};
const Door info_door{.function = "info",
                     .command = "info",
                     .own = {"model"},
                     .gives = Gives::json,
                     .has_vocabulary = false};
const Door evaluate_door{.function = "evaluate",
                         .command = "eval",
                         .own = {"model", "data", "init"},
                         .gives = Gives::json,
                         .has_vocabulary = false,
                         .weights = "weights"};
const Door predict_door{.function = "predict",
                        .command = "eval",
                        .own = {"model", "init"},
                        .gives = Gives::answers,
                        .has_vocabulary = false,
                        .weights = "weights"};
const Door export_door{.function = "export",
                       .command = "export",
                       .own = {"weights", "out"},
                       .has_vocabulary = false,
                       .weights = "weights"};

// A Trainer's run, in Python.
nb::object train(const nb::args& args, const nb::kwargs& options) {
  return nb::module_::import_("accrue._modules").attr("train")(*args, **options);
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
  const auto& network = call.given().network;
  check(!network || network->has_one_of_each(),
        "info() shows networks of one input and one output, but this one has {} and {}: expected "
        "print(network), which lists its calls",
        counted(network ? std::ssize(network->inputs) : 0, "input"),
        counted(network ? std::ssize(network->outputs) : 0, "output"));
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
  // A caller's own texts are scored whole.
  call.add_data(data, are_written_texts(data) ? data : nb::handle(nb::none()));
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

// Answers of the network of weights, which are read once.
class Answering {
 public:
  Answering(const Call& call, const Request& request, Device device)
      : call_(call), request_(request), device_(device) {}

  nb::object to(nb::handle x) {
    const Request& o = request_;
    if (const auto& given = call_.given().network; given && has_named_answers(x, *given)) {
      Dataset data = question_by_name(x, given->inputs);
      compare_with_training(data);
      const LoadedNetwork& network = loaded(o.sample);
      return answers_by_name(std::move(data), o.domains.pixels(), *network.model, o.micro_batch,
                             network.parameters.compute_dtype(), device_);
    }
    if (!is_fetched(x) && tokens_of(x) && o.class_count_of_weights) {
      const Text* const text = o.domains.of_model_as<Text>(o.model_name);
      return answers_of(x, LanguageModel::of(*loaded(o.sample).model),
                        text && text->embeds() ? TextAnswers::embeddings : TextAnswers::logits,
                        o.micro_batch, device_);
    }
    Dataset data = question_of(x, call_.taken(), o.sample.classes_seen());
    for (const char* name : {"mean", "std"})
      if (o.given.contains(name)) data.check_pixels(fmt::format("--{}", name));
    compare_with_training(data);
    see_as_trained(data, o);
    const LoadedNetwork& network = loaded(o.sample_in(data));
    return answers_to(std::move(data), o.domains.pixels(), *network.model, o.micro_batch,
                      network.parameters.compute_dtype(), device_);
  }

 private:
  // Throws Error if the network has learned from other kinds of numbers, and warns if nothing says
  // how its pixels were normalized.
  void compare_with_training(const Dataset& data) const {
    check_inputs(data, request_.inputs_of_weights, request_.weights, request_);
    warn_of_assumed_pixels(data, request_, warnings_alone());
  }
  const LoadedNetwork& loaded(const SampleSpec& sample) {
    if (!network_) network_.emplace(load_network(request_, sample, device_));
    return *network_;
  }

  const Call& call_;
  const Request& request_;
  const Device device_;
  std::optional<LoadedNetwork> network_;
};

nb::object predict(nb::handle weights, nb::handle x, nb::handle model, const nb::kwargs& options) {
  const AtWork at_work;
  Call call(predict_door, options);
  call.add_weights(weights);
  call.add_model(model);
  const Words words(true, call.spelling());
  nb::object y;
  call.run([&](Asked& asked) {
    const Request& o = asked.options;
    const Device device = apply_machine_settings(o, app::spoken());
    const nb::gil_scoped_acquire gil;
    if (const auto* const tables = o.domains.of_model_as<Tables>(o.model_name))
      fail("{} holds weights of {}, which sees the columns of a table, but x is an array: {}",
           o.weights, o.model_name, tables->where_it_answers());
    Answering answering(call, o, device);
    y = answers_to_all(x, o.micro_batch, [&](nb::handle some) { return answering.to(some); });
  });
  return y;
}

void export_onnx(nb::handle weights, nb::handle path, nb::handle model, const nb::kwargs& options) {
  const AtWork at_work;
  Call call(export_door, options);
  check(!weights.is_none(), "weights is None: expected a safetensors file, or Weights");
  call.add("weights", weights);
  call.add_network(model);
  call.add("out", path);
  const Words words(true, call.spelling());
  call.run([&](Asked& asked) {
    const std::string& name = asked.options.model_name;
    check(model.is_none() || name == given_model,
          "the weights are of the network {}: expected no model", name);
    app::export_onnx(asked.options, asked.onnx);
  });
}

void set_step(WindowReport& r, const nb::tuple& state) {
  new (&r) WindowReport;
  size_t at = 0;
  const auto take = [&](auto& field) {
    field = nb::cast<std::decay_t<decltype(field)>>(state[at++]);
  };
  take(r.step), take(r.epoch), take(r.window), take(r.micro_batches), take(r.samples);
  take(r.loss), take(r.grad_norm), take(r.lr), take(r.loss_scale), take(r.noise_scale);
  take(r.skipped), take(r.player), take(r.term_names), take(r.terms);
}

// Returns the bytes.
size_t release() {
  const nb::gil_scoped_release released;
  size_t bytes = host_blocks().release_cached();
  if (cuda::unavailable_reason().empty())
    bytes += cuda::blocks().release_cached() + cuda::blocks_on_host().release_cached();
  return bytes;
}

// The names of the classes that a folder of images shows, or none.
std::vector<std::string> classes_of_folder(const std::string& path) {
  const auto folder = find_images(path);
  const bool has_classes = folder && folder->answer == ImageFolder::Answer::classes;
  return has_classes ? folder->classes : std::vector<std::string>{};
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

void add_training(nb::module_& m, const FunctionDocs& docs) {
  nb::class_<WindowReport>(m, "Step", "The outcome of a window: one optimizer step, or none.")
      .def_ro("step", &WindowReport::step, "Optimizer steps taken so far, this one included.")
      .def_ro("epoch", &WindowReport::epoch, "From 0.")
      .def_ro("window", &WindowReport::window, "From 0, over all epochs.")
      .def_ro("micro_batches", &WindowReport::micro_batches, "In this window.")
      .def_ro("samples", &WindowReport::samples, "In this window.")
      .def_ro("loss", &WindowReport::loss, "The mean over the window.")
      .def_prop_ro(
          "terms",
          [](const WindowReport& r) {
            nb::dict terms;
            for (size_t i = 0; i < r.term_names.size() && i < r.terms.size(); ++i)
              terms[r.term_names[i].c_str()] = r.terms[i];
            return terms;
          },
          "The losses of several outputs, or what else is reported beside the loss, by name.",
          nb::sig("def terms(self) -> dict[str, float]"))
      .def_ro("grad_norm", &WindowReport::grad_norm,
              "The norm of the mean gradient, before clipping; NaN with strategies that keep none.")
      .def_ro("lr", &WindowReport::lr, "The learning rate.")
      .def_ro("loss_scale", &WindowReport::loss_scale, "The factor on the loss in 16 bits.")
      .def_ro("noise_scale", &WindowReport::noise_scale,
              "In the units that the loss is a mean over: tokens, judged pixels, else samples; NaN "
              "while unknown.")
      .def_ro("skipped", &WindowReport::skipped, "True if nothing was changed.")
      .def_ro("player", &WindowReport::player, "The network's name if there are several.")
      .def("__getstate__",
           [](const WindowReport& r) {
             return nb::make_tuple(r.step, r.epoch, r.window, r.micro_batches, r.samples, r.loss,
                                   r.grad_norm, r.lr, r.loss_scale, r.noise_scale, r.skipped,
                                   r.player, r.term_names, r.terms);
           })
      .def("__setstate__", &set_step)
      .def("__repr__", [](const WindowReport& r) {
        return fmt::format("Step(step={}, loss={:.6g}, grad_norm={:.4g}, lr={:.4g}, samples={})",
                           r.step, r.loss, r.grad_norm, r.lr, r.samples);
      });

  const OwnArgument star{.name = "*"};
  const OwnArgument model{
      .name = "model",
      .annotation = "accrue._typing.Model | None",
      .value = "None",
      .text =
          "A name (below), a language model's config.json, a GGUF file (with lora=), an ONNX file, "
          "a network of layers (Sequential, Network), a torch.nn.Module, or what from_torch() or "
          "from_onnx() made of one.",
      .type = "str, path, Layer or torch.nn.Module, optional"};
  const std::string kinds_of_data =
      "(x, y): x float32 [N, ...], or uint8 [N, H, W] or [N, C, H, W], pixels from 0 to 255; y "
      "integers [N], classes from 0 on, float32 [N, ...], or masks: integers [N, H, W], each "
      "pixel's class, or bool [N, H, W] or [N, K, H, W].\n"
      "For language models tokens, integers: [L], a document; [N, T], rows; or a list of documents "
      "[L]. (tokens, learned) says, bool of the same shape, which are to be learned, not only "
      "read. "
      "Or a list of texts or of chats, with tokenizer.\n"
      "For zi2zi (sources, targets, styles): glyphs [N, S, S], as x, and integers [N].\n"
      "NumPy's arrays and anything with DLPack; float32, uint8 and int32, of tokens also 16 bits, "
      "in "
      "C order are not copied and must not change meanwhile. float64 is rounded to float32, but "
      "not "
      "with precision=\"fp64\", of which weights and answers are float64, too.\n";
  const OwnArgument data{
      .name = "data",
      .annotation = "typing.Any",
      .value = "None",
      .text =
          "A name or a directory (below), or " + kinds_of_data +
          "Samples (x, y) by their index are fetched when they are needed: a list of pairs, a "
          "Dataset or DataLoader of PyTorch, a Dataset of Hugging Face with columns=(\"x\", "
          "\"y\"), any object with __len__ and __getitem__, and arrays in files. So is a stream, "
          "a function that gives samples, with epoch_samples. A DataFrame has columns, too.",
      .type = "str, path, arrays or samples, optional"};
  // The arguments that python/accrue/_data.py takes away.
  const std::vector<OwnArgument> samples{
      {"columns", "typing.Any", "None",
       "The names of x and y in samples that are dictionaries, and in tables: (\"x\", \"y\"), or a "
       "dictionary of columns by the inputs' names.",
       "sequence of str or dict, optional"},
      {"transform", "accrue._typing.Transform | None", "None",
       "A function of a sample: f(x) or f(x, y), for a folder of images an image of Pillow. A "
       "parameter rng is a numpy Generator, drawn from (seed, epoch, index), and None for a "
       "score.",
       "callable, optional"},
      {"workers", "int | None", "None",
       "How many threads may fetch samples at once. By default 1."},
      {"epoch_samples", "int | None", "None", "The number of samples of a stream in an epoch."}};
  const OwnArgument vocabulary{
      "vocabulary", "int | None", "None",
      "How many different tokens data may have. By default it ends with the largest."};
  const OwnArgument sample_weight{
      "sample_weight", "typing.Any", "None",
      "How much each sample of (x, y) counts, numbers [N]: the loss is a mean over them. Samples "
      "of "
      "test count alike. A dictionary has such numbers by the names of outputs.",
      "array_like [N], optional"};
  const OwnArgument class_weight{
      "class_weight",
      "typing.Mapping[int, float] | typing.Literal['balanced'] | typing.Iterable[float] | None",
      "None",
      "How much each class counts, by its number, as Keras and scikit-learn call it: another name "
      "of class_weights, of which one can be given. Classes that a dictionary leaves out count 1.",
      "dict, 'balanced' or sequence of float, optional"};
  const std::vector<OwnArgument> trained{
      {"test", "typing.Any", "None",
       "Like data, for the score. By default the score is on the validation or training data.",
       "as data, optional"},
      {"validation", "typing.Any", "None",
       "Like data, scored after every epoch, or as eval_every says.", "as data, optional"},
      {"metrics", "accrue._typing.Metrics | None", "None",
       "Functions of y and the network's answers, a list or by names in a dictionary, for scores "
       "of (x, y). With several outputs a function gets dictionaries of both by their names, and "
       "{\"OUTPUT\": [function]} has functions of one of them.",
       "callable, or list or dict of callables, optional"}};
  const OwnArgument quiet{"quiet", "bool", "True", "False prints what the program prints."};
  const auto arguments = [&](std::initializer_list<std::vector<OwnArgument>> lists) {
    std::vector<OwnArgument> all;
    for (const std::vector<OwnArgument>& each : lists)
      all.insert(all.end(), each.begin(), each.end());
    return all;
  };

  const FunctionDoc of_trainer =
      docs.of(trainer_door,
              {.name = "__init__",
               .arguments = arguments({{{.name = "self"}, model, data, star},
                                       trained,
                                       {quiet, vocabulary, sample_weight, class_weight},
                                       samples}),
               .returned = "None",
               .doc = {.summary = "A training that can be run, looked at and run again.",
                       .examples = R"(>>> trainer = accrue.Trainer("mlp-small", "digits", steps=5)
>>> result = trainer.run()
>>> trainer.is_finished
True)"}});
  const std::vector<OwnArgument> callbacks{
      {"on_step", "accrue._typing.OnStep | None", "None",
       "Functions that are called with each window's Step, up to a few windows later. False as a "
       "result ends the training after a whole window, and so does an exception, which is raised "
       "again. So does Ctrl-C, with a checkpoint in checkpoint_dir.",
       "callable or list of callables, optional"},
      {"on_epoch", "accrue._typing.OnEpoch | None", "None",
       "The same with the Epoch that has ended.", "callable or list of callables, optional"},
      {"progress", "bool | None", "None",
       "Whether tqdm's bar is drawn; by default on a terminal and in a notebook, if tqdm is "
       "installed and quiet is not given."}};
  Docstring of_run{
      .summary = "Trains to the end, or for a number of epochs.",
      .more =
          "Another run() goes on from there. Ctrl-C ends it after the window under way, with a "
          "checkpoint if there is a checkpoint_dir, and raises KeyboardInterrupt; run() then "
          "continues.",
      .parameters = {{"on_step", callbacks[0].type, callbacks[0].text},
                     {"on_epoch", callbacks[1].type, callbacks[1].text},
                     {"epochs", "int, optional",
                      "How many epochs, the one under way included, also beyond the trainer's own. "
                      "By default to its end."},
                     {"progress", "bool, optional", callbacks[2].text}},
      .returned = "Result",
      .returns = "Losses, score, weights and memory so far.",
      .examples = R"(>>> x = np.zeros((64, 4), np.float32)
>>> trainer = accrue.Trainer(accrue.Linear(4, 3), (x, np.arange(64) % 3), epochs=3)
>>> trainer.run(epochs=1).steps
1
>>> trainer.run().steps
3)"};
  Docstring of_trainer_evaluate{
      .summary = "Scores the network as it is now.",
      .parameters = {{"data", "as data of Trainer, optional",
                      "Arrays (x, y), tokens or samples. By default the test data."}},
      .returned = "Score",
      .returns = "The loss and its metrics, by name.",
      .examples = R"(>>> trainer = accrue.Trainer("mlp-small", "digits", epochs=1)
>>> list(trainer.evaluate())
['samples', 'loss', 'correct', 'accuracy'])"};
  Docstring of_trainer_predict{
      .summary = "Answers by the network as it is now.",
      .parameters = {{"x", "array_like [N, ...] or samples",
                      "As in the data; for zi2zi (sources, styles), and of a network with several "
                      "inputs a dictionary of arrays. Or samples that are fetched, on which the "
                      "trainer's columns and transform act."}},
      .returned = "ndarray [N, ...] or dict of them",
      .returns =
          "Float32: for classes their logits, for rows of tokens [N, T] the logits of the "
          "next ones, [N, T, vocabulary]. A network with several outputs has one for each.",
      .examples = R"(>>> x = np.zeros((64, 4), np.float32)
>>> trainer = accrue.Trainer(accrue.Linear(4, 3), (x, np.arange(64) % 3), steps=1)
>>> trainer.predict(x).shape
(64, 3))"};
  Docstring of_save_weights{
      .summary = "Writes a safetensors file with PyTorch's names.",
      .parameters = {{"path", "str or path", "The file, which is written whole or not at all."}},
      .examples = R"(>>> trainer = accrue.Trainer("mlp-small", "digits", steps=1)
>>> trainer.save_weights("w.safetensors"))"};
  nb::class_<PythonTrainer>(m, "Trainer", of_trainer.doc)
      .def(
          "__init__",
          [](PythonTrainer* self, nb::handle model, nb::handle data, nb::handle test,
             nb::handle validation, nb::handle quiet, bool is_of_train, bool keeps_best,
             const nb::kwargs& rest) {
            const AtWork at_work;
            new (self) PythonTrainer(is_of_train ? train_door : trainer_door, model, data, test,
                                     validation, quiet, rest, keeps_best);
          },
          "model"_a = nb::none(), "data"_a = nb::none(), nb::kw_only(), "test"_a = nb::none(),
          "validation"_a = nb::none(), "quiet"_a.none() = true, "_is_of_train"_a = false,
          "_keeps_best"_a = false, "options"_a, nb::sig(of_trainer.signature), of_trainer.doc)
      .def(
          "run",
          [](PythonTrainer& self, nb::object told, std::optional<int64_t> epochs, bool lets_go) {
            return self.run(std::move(told), epochs, lets_go ? Elements::own : Elements::copied);
          },
          "told"_a.none(), "epochs"_a.none(), "lets_go"_a, lasting(of_run.text()),
          nb::sig(
              "def run(self, on_step: accrue._typing.OnStep | None = None, on_epoch: "
              "accrue._typing.OnEpoch | None = None, *, epochs: int | None = None, progress: bool "
              "| None = None) -> accrue._results.Result"))
      .def("_save_state", &PythonTrainer::save_state)
      .def("_restore_state", &PythonTrainer::restore_state)
      .def("evaluate", &PythonTrainer::evaluate_spelt, "data"_a = nb::none(),
           lasting(of_trainer_evaluate.text()),
           nb::sig("def evaluate(self, data: typing.Any = None) -> accrue._results.Score"))
      .def("predict", &PythonTrainer::predict_spelt, "x"_a.none(),
           lasting(of_trainer_predict.text()),
           nb::sig("def predict(self, x: typing.Any) -> typing.Any"))
      .def("save_weights", &PythonTrainer::save_weights, "path"_a.none(),
           lasting(of_save_weights.text()),
           nb::sig("def save_weights(self, path: str | os.PathLike[str]) -> None"))
      .def_prop_rw(
          "weights", [](const PythonTrainer& self) { return self.weights(Elements::copied); },
          &PythonTrainer::set_weights,
          "float32 arrays by name: a copy of the weights as they are now. Arrays that are "
          "assigned\n"
          "replace the weights, and the optimizer keeps its moments.",
          nb::for_getter(nb::sig("def weights(self) -> accrue._results.Weights")),
          nb::for_setter(nb::sig("def weights(self, arrays: dict[str, typing.Any], /) -> None")))
      .def_prop_ro("losses", &PythonTrainer::losses,
                   "The loss of each window that this trainer has run, float64; none from before "
                   "it resumed.",
                   nb::sig("def losses(self) -> numpy.ndarray"))
      .def_prop_ro("history", &PythonTrainer::history,
                   "Arrays by window: losses, learning rates, scores of validation and more.",
                   nb::sig("def history(self) -> accrue._history.History"))
      .def_prop_ro("memory", &PythonTrainer::memory, "Peaks in bytes, by category.",
                   nb::sig("def memory(self) -> accrue._results.Memory"))
      .def_prop_ro("steps", &PythonTrainer::steps, "Optimizer steps taken.")
      .def_prop_ro("total_steps", &PythonTrainer::total_steps,
                   "The number of steps at which the latest run() ends, or the next one will.")
      .def_prop_ro("is_finished", &PythonTrainer::is_finished, "True once nothing is left to run.");

  const FunctionDoc of_train = docs.of(
      train_door,
      {.name = "train",
       .arguments = arguments({{model, data, star},
                               trained,
                               callbacks,
                               {quiet, vocabulary, sample_weight, class_weight},
                               samples}),
       .returned = "accrue._results.Result",
       .doc = {.summary = "Trains a network.",
               .more = "The gradient of an effective batch is summed over micro-batches, with "
                       "the same result for every split.",
               .returns = "Losses [windows], score, weights, memory in bytes, and history.",
               .examples = R"(>>> result = accrue.train("mlp-small", "digits", micro_batch=16,
...                       effective_batch=64, steps=2)
>>> result.batches, result.losses.shape
('64 (16 x 4)', (2,))

Arrays, and a network of layers:

>>> x = np.random.default_rng(1).normal(size=(64, 4)).astype("float32")
>>> y = (x[:, 0] > 0).astype(int)
>>> network = accrue.Sequential(accrue.Linear(4, 8, activation="relu"), accrue.Linear(8, 2))
>>> result = accrue.train(network, (x, y), epochs=20, lr=0.05)
>>> result.score["accuracy"] > 90
True)"}});
  m.def("train", &train, "args"_a, "options"_a, nb::sig(of_train.signature), of_train.doc);

  const FunctionDoc of_plan = docs.of(
      plan_door,
      {.name = "plan",
       .arguments =
           arguments({{model, data, star, vocabulary, sample_weight, class_weight}, samples}),
       .returned = "accrue._results.Plan",
       .doc = {
           .summary = "Finds the largest micro-batch that fits in `memory`, and the alternatives.",
           .returns = "Peaks are bytes, as they are measured when the training runs.",
           .examples =
               R"(>>> plan = accrue.plan("cnn", "digits", effective_batch=64, memory="16MiB")
>>> sorted(plan.options())
['effective_batch', 'micro_batch', 'recompute', 'strategy'])"}});
  m.def("plan", &plan, "model"_a = nb::none(), "data"_a = nb::none(), "options"_a,
        nb::sig(of_plan.signature), of_plan.doc);

  const FunctionDoc of_info =
      docs.of(info_door, {.name = "info",
                          .arguments = {model},
                          .returned = "accrue._results.Info",
                          .doc = {.summary = "Shows the build, the machine and a model's layers.",
                                  .returns = "The model's tensors by name, and their number.",
                                  .examples = R"(>>> accrue.info("mlp-small")["parameters"]
203530)"}});
  m.def("info", &info, "model"_a = nb::none(), "options"_a, nb::sig(of_info.signature),
        of_info.doc);

  const OwnArgument weights{.name = "weights",
                            .annotation = "accrue._typing.Trained",
                            .text =
                                "A safetensors file, Weights or another dictionary of arrays; the "
                                "Result of a training; or "
                                "a module or a file with its own weights.",
                            .type = "str, path, Weights, Result or torch.nn.Module"};
  const FunctionDoc of_evaluate = docs.of(
      evaluate_door,
      {.name = "evaluate",
       .arguments = arguments({{weights, model, data, star, class_weight}, samples}),
       .returned = "accrue._results.Score | accrue._results.Scores",
       .doc = {.summary = "Scores weights on arrays, or on parts of a data set (split).",
               .returns =
                   "The loss and its metrics by name for arrays; such a Score for each part of a "
                   "data set.",
               .examples = R"(>>> weights = accrue.train("mlp-small", "digits", steps=2).weights
>>> list(accrue.evaluate(weights, data="digits"))
['training', 'test'])"}});
  m.def("evaluate", &evaluate, "weights"_a.none(), "model"_a = nb::none(), "data"_a = nb::none(),
        "options"_a, nb::sig(of_evaluate.signature), of_evaluate.doc);

  const FunctionDoc of_predict = docs.of(
      predict_door,
      {.name = "predict",
       .arguments = {weights,
                     {.name = "x",
                      .annotation = "typing.Any",
                      .text = "As in the data of a training; for zi2zi (sources, styles), and of a "
                              "network with several inputs a dictionary of arrays. Or samples "
                              "that are fetched, as data of train(), and a stream that ends; of "
                              "(x, y) the network sees x.",
                      .type = "array_like [N, ...] or samples"},
                     model,
                     star,
                     {"columns", "typing.Any", "None",
                      "The name of x in fetched samples, (x, y), or a dictionary by inputs.",
                      "str, sequence of str or dict, optional"},
                     {"transform", "accrue._typing.Transform | None", "None",
                      "A function of a fetched sample, as train() takes it.", "callable, optional"},
                     {"workers", "int | None", "None",
                      "How many threads fetch samples by their index, also while the network "
                      "answers. By default one, between its steps."}},
       .returned = "typing.Any",
       .doc = {.summary = "Answers by a network of trained weights.",
               .returns =
                   "An array float32 [N, ...]: for classes their logits, for rows of tokens "
                   "[N, T] the logits of the next ones, [N, T, vocabulary]. A network that "
                   "was trained on pairs of texts answers with embeddings [N, E] of documents "
                   "of any lengths, and one with several outputs by a dictionary.",
               .examples = R"(>>> x = np.zeros((64, 4), np.float32)
>>> network = accrue.Linear(4, 3)
>>> result = accrue.train(network, (x, np.arange(64) % 3), steps=1)
>>> accrue.predict(result.weights, x, network).shape
(64, 3))"}});
  m.def("predict", &predict, "weights"_a.none(), "x"_a.none(), "model"_a = nb::none(), "options"_a,
        nb::sig(of_predict.signature), of_predict.doc);

  OwnArgument exported = model;
  exported.text =
      "A network of layers, a module or a file, unless the weights are of a model that is "
      "known by its name, which is in their file.";
  const FunctionDoc of_export = docs.of(
      export_door,
      {.name = "export",
       .arguments = {weights,
                     {.name = "path",
                      .annotation = "str | os.PathLike[str]",
                      .text = "The file to write, FILE.onnx.",
                      .type = "str or path"},
                     exported},
       .returned = "None",
       .doc = {.summary = "Writes a network as an ONNX file.",
               .more = "It has another name, export_onnx.",
               .examples = R"(>>> weights = accrue.train("mlp-small", "digits", steps=1).weights
>>> accrue.export(weights, "digits.onnx"))"}});
  m.def("export", &export_onnx, "weights"_a.none(), "path"_a, "model"_a = nb::none(), "options"_a,
        nb::sig(of_export.signature), of_export.doc);

  const Docstring of_release{
      .summary =
          "Gives memory that is kept for later use back to the system, or to the GPU's driver.",
      .more = "Arrays, weights and trainers stay as they are.",
      .returned = "int",
      .returns = "How many bytes.",
      .examples = ">>> accrue.release() >= 0\nTrue"};
  m.def("release", &release, lasting(of_release.text()));
  m.def("_classes_of_folder", &classes_of_folder, "path"_a);
  m.def("_read_weights", &read_weights, "path"_a);
  m.def("_write_weights", &write_weights, "path"_a, "arrays"_a, "metadata"_a);
}

}  // namespace accrue::python
