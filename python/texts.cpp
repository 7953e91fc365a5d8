#include "python/texts.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "job/machine.h"
#include "python/answers.h"
#include "python/call.h"
#include "python/signatures.h"
#include "python/tokens.h"
#include "python/working.h"
#include "text/domain.h"
#include "text/sampling.h"
#include "text/tokenizers.h"
#include "text/writing_model.h"

namespace accrue::python {

using namespace nb::literals;

namespace {

using Asked = app::AskedOfNetworks;

const Door generate_door{.function = "generate",
                         .command = "eval",
                         .own = {"model", "init"},
                         .gives = Gives::answers,
                         .has_vocabulary = false,
                         .weights = "weights"};
const Door embed_door{.function = "embed",
                      .command = "eval",
                      .own = {"model", "init"},
                      .gives = Gives::answers,
                      .has_vocabulary = false,
                      .weights = "weights"};

// A token may end within a character.
nb::object to_python(const std::string& text) {
  return nb::bytes(text.data(), text.size()).attr("decode")("utf-8", "replace");
}
nb::object to_python(int32_t token) { return nb::int_(token); }

// Passes what a model writes to the caller's function, unless that is None, which ends the text by
// returning False. Ctrl-C and an exception end it, too.
class Taker {
 public:
  explicit Taker(nb::object on_text) : on_text_(std::move(on_text)) {
    check(on_text_.is_none() || PyCallable_Check(on_text_.ptr()),
          "on_text is {}: expected a function of a text", shown(on_text_));
  }
  template <class Piece>
  bool take(const Piece& piece) {
    if (interrupts_.count() > 0) return false;
    return on_text_.is_none() ||
           interrupts_.goes_on_after([&] { return on_text_(to_python(piece)); });
  }
  void rethrow() { interrupts_.rethrow(); }

 private:
  const nb::object on_text_;
  Interrupts interrupts_;
};

nb::object written_text(const Request& o, const std::string& prompt, const std::string& tokenizer,
                        int64_t tokens, const Sampling& sampling, Taker& taker) {
  WritingModel model(o, tokenizer, warnings_alone());
  const Tokenizer& own = *model.tokenizer().tokenizer;
  std::vector<int32_t> begin = encode_with_beginning(own, prompt);
  if (begin.empty()) begin = {own.end_of_text()};
  model.check_room(
      std::ssize(begin) + tokens,
      fmt::format("{} and max_new_tokens={}", counted(std::ssize(begin), "token"), tokens));
  std::string all = prompt;
  model.go_on(begin, tokens, sampling, {}, [&](const std::string& text) {
    all += text;
    return taker.take(text);
  });
  const nb::gil_scoped_acquire gil;
  return to_python(all);
}

nb::object written_tokens(const Request& o, const Tokens& prompt, Device device, int64_t tokens,
                          const Sampling& sampling, Taker& taker) {
  const Corpus& corpus = *prompt.corpus;
  check(corpus.documents().ends.size() == 1, "prompt has {}: expected integers [L], or a text",
        counted(std::ssize(corpus.documents().ends), "document"));
  const LoadedNetwork network = load_network(o, o.sample, device);
  const LanguageModel& model = LanguageModel::of(*network.model);
  check_tokens(corpus, model.head().size(0));
  std::vector<int32_t> all(static_cast<size_t>(corpus.size()));
  corpus.read(all, 0);
  const std::vector<int32_t> begin = all;
  continue_text(model, begin, tokens, sampling, device, [&](int32_t token) {
    all.push_back(token);
    return taker.take(token);
  });
  const nb::gil_scoped_acquire gil;
  return array_of(Tensor::from(all, {std::ssize(all)}, Device::cpu));
}

// The tokens of texts by the model's own tokenizer.
Tokens tokens_of_texts(const Request& o, nb::handle texts, const std::string& tokenizer) {
  const Text& text = *o.domains.of_model_as<Text>(o.model_name);
  const TokenizerPtr own = tokenizer_at(text.chosen_tokenizer(tokenizer));
  nb::list rows;
  const nb::object numpy = nb::module_::import_("numpy");
  for (const nb::handle each : texts) {
    check(nb::isinstance<nb::str>(each), "texts has {}: expected texts alone", shown(each));
    const std::vector<int32_t> tokens = encode_with_beginning(*own, nb::cast<std::string>(each));
    rows.append(numpy.attr("frombuffer")(
        nb::bytes(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(int32_t)),
        "int32"));
  }
  auto found = tokens_of(rows, own->size());
  check(found.has_value(), "texts is empty: expected a text or more");
  return std::move(*found);
}

bool are_texts(nb::handle x) {
  return (nb::isinstance<nb::list>(x) || nb::isinstance<nb::tuple>(x)) && nb::len(x) > 0 &&
         nb::isinstance<nb::str>(x[0]);
}

nb::object generate(nb::handle weights, nb::handle prompt, nb::handle model, int64_t max_new_tokens,
                    double temperature, int64_t top_k, double top_p, double repetition_penalty,
                    uint64_t seed, const std::string& tokenizer, nb::object on_text,
                    const nb::kwargs& options) {
  const AtWork at_work;
  Call call(generate_door, options);
  if (!weights.is_none()) call.add_weights(weights);
  call.add_model(model);
  check(max_new_tokens > 0, "max_new_tokens is {}: expected 1 or more", max_new_tokens);
  const Sampling sampling{.temperature = temperature,
                          .top_k = top_k,
                          .top_p = top_p,
                          .repetition_penalty = repetition_penalty,
                          .seed = seed};
  check_sampling(sampling);
  const bool is_text = nb::isinstance<nb::str>(prompt);
  const auto tokens = is_text ? std::nullopt : tokens_of(prompt);
  check(is_text || tokens, "prompt is {}: expected a text, or tokens [L]", shown(prompt));
  Taker taker(std::move(on_text));
  const Words words(true, call.spelling());
  nb::object result;
  call.run([&](Asked& asked) {
    const Request& o = asked.options;
    const Device device = apply_machine_settings(o, app::spoken());
    if (is_text)
      result = written_text(o, nb::cast<std::string>(prompt), tokenizer, max_new_tokens, sampling,
                            taker);
    else result = written_tokens(o, *tokens, device, max_new_tokens, sampling, taker);
  });
  taker.rethrow();
  return result;
}

nb::object embed(nb::handle weights, nb::handle texts, nb::handle model,
                 const std::string& tokenizer, const nb::kwargs& options) {
  const AtWork at_work;
  Call call(embed_door, options);
  call.add_weights(weights);
  call.add_model(model);
  const Words words(true, call.spelling());
  nb::object z;
  call.run([&](Asked& asked) {
    const Request& o = asked.options;
    const Device device = apply_machine_settings(o, app::spoken());
    const nb::gil_scoped_acquire gil;
    const Text* const text = o.domains.of_model_as<Text>(o.model_name);
    check(text && text->embeds(),
          "{} has not learned from pairs of texts: expected weights that have, or "
          "accrue.predict()",
          o.weights);
    const LoadedNetwork network = load_network(o, o.sample, device);
    z = answers_to_all(texts, o.micro_batch, [&](nb::handle some) {
      if (!are_texts(some))
        return answers_of(some, LanguageModel::of(*network.model), TextAnswers::embeddings,
                          o.micro_batch, device);
      const Tokens tokens = tokens_of_texts(o, some, tokenizer);
      Tensor all;
      until_interrupted([&](const StopRequest& stop) {
        const nb::gil_scoped_release release;
        all = embeddings_of(tokens, LanguageModel::of(*network.model), o.micro_batch, device, stop);
      });
      return array_of(all);
    });
  });
  return z;
}

// A tokenizer for networks of the caller's own.
struct TokenizerOfPython {
  TokenizerPtr own;

  nb::object encode(const std::string& text) const {
    std::vector<int32_t> tokens = encode_with_beginning(*own, text);
    if (tokens.empty()) tokens = {own->end_of_text()};
    return array_of(Tensor::from(tokens, {std::ssize(tokens)}, Device::cpu));
  }
  nb::bytes decode(const std::vector<int32_t>& tokens) const {
    const std::string text = own->decode(tokens);
    return nb::bytes(text.data(), text.size());
  }
};

using Row = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// The next token of a text, drawn from its logits as TextWriter draws it; `drawn` came before.
int32_t next_token(const Row& logits, const std::vector<int32_t>& text, double temperature,
                   int64_t top_k, double top_p, double repetition_penalty, uint64_t seed,
                   uint64_t drawn) {
  std::vector<float> own(logits.data(), logits.data() + logits.size());
  penalize(own, text, repetition_penalty);
  return draw_token(own, {.temperature = temperature, .top_k = top_k, .top_p = top_p, .seed = seed},
                    drawn);
}

}  // namespace

void add_texts(nb::module_& m, const FunctionDocs& docs) {
  const OwnArgument weights{.name = "weights",
                            .annotation = "accrue._typing.Trained | None",
                            .text =
                                "A safetensors file, Weights, or the Result of a training; None "
                                "with base= a GGUF file. For generate() also a network of the "
                                "caller's own that has weights, such as a module.",
                            .type = "str, path, Weights, Result or torch.nn.Module"};
  const OwnArgument model{.name = "model",
                          .annotation = "accrue._typing.Model | None",
                          .value = "None",
                          .text =
                              "A name or a config.json, where the weights do not say it; for "
                              "generate() also a network of the caller's own.",
                          .type = "str, path, Network or torch.nn.Module, optional"};
  const OwnArgument tokenizer{
      .name = "tokenizer",
      .annotation = "typing.Any",
      .value = "''",
      .text =
          "Either bytes, a path or an object as train() takes it. By default "
          "the model's own, else bytes.",
      .type = "str, path or tokenizer, optional"};
  const FunctionDoc of_generate = docs.of(
      generate_door,
      {.name = "generate",
       .arguments =
           {weights,
            {.name = "prompt",
             .annotation = "typing.Any",
             .text = "A text, or tokens: integers [L].",
             .type = "str or array_like [L]"},
            model,
            {.name = "*"},
            {"max_new_tokens", "int", "200",
             "At most so many after the prompt. A text ends at the tokenizer's end of text."},
            {"temperature", "float", "1.0",
             "Logits are divided by it; 0 takes the likeliest token each time."},
            {"top_k", "int", "0", "Draws from so many likeliest tokens; 0: from all."},
            {"top_p", "float", "1.0",
             "Draws from the fewest likeliest tokens whose probabilities add up to this."},
            {"repetition_penalty", "float", "1.0", "Above 1 it repeats earlier tokens less often."},
            {"seed", "int", "1", "Another one gives another text."},
            tokenizer,
            {"on_text", "typing.Callable[[typing.Any], typing.Any] | None", "None",
             "Called with each part of the text, or each token, as it is written. False ends it.",
             "callable, optional"}},
       .returned = "typing.Any",
       .doc = {.summary = "Continues a prompt by a language model.",
               .more =
                   "It keeps the keys and values of all tokens, as ``accrue text write`` does. A "
                   "network of the caller's own, which answers to tokens [N, T] with logits [N, T, "
                   "V] of the next ones, computes all of them anew for each token that it writes. "
                   "Its answers must not depend on later tokens.",
               .returns = "The prompt and what follows it, a str, or int32 [L + n] for tokens.",
               .examples = R"(>>> tokens = np.arange(2000) % 7
>>> result = accrue.train("gpt-tiny", tokens, context=16, steps=1, effective_batch=16)
>>> accrue.generate(result.weights, tokens[:3], max_new_tokens=2).shape
(5,))"}});
  m.def("generate", &generate, "weights"_a.none(), "prompt"_a, "model"_a = nb::none(),
        nb::kw_only(), "max_new_tokens"_a = 200, "temperature"_a = 1.0, "top_k"_a = 0,
        "top_p"_a = 1.0, "repetition_penalty"_a = 1.0, "seed"_a = 1, "tokenizer"_a = "",
        "on_text"_a = nb::none(), "options"_a, nb::sig(of_generate.signature), of_generate.doc);

  nb::class_<TokenizerOfPython>(m, "_Tokenizer")
      .def(
          "__init__",
          [](TokenizerOfPython* self, const std::string& name) {
            new (self) TokenizerOfPython{tokenizer_at(name)};
          },
          "name"_a)
      .def_prop_ro("size", [](const TokenizerOfPython& self) { return self.own->size(); })
      .def_prop_ro("end_of_text",
                   [](const TokenizerOfPython& self) { return self.own->end_of_text(); })
      .def("encode", &TokenizerOfPython::encode, "text"_a,
           nb::sig("def encode(self, text: str) -> numpy.ndarray"))
      .def("decode", &TokenizerOfPython::decode, "tokens"_a);
  m.def("_next_token", &next_token, "logits"_a, "text"_a, "temperature"_a, "top_k"_a, "top_p"_a,
        "repetition_penalty"_a, "seed"_a, "drawn"_a,
        nb::sig("def _next_token(logits: numpy.ndarray, text: list[int], temperature: float, "
                "top_k: int, top_p: float, repetition_penalty: float, seed: int, drawn: int) -> "
                "int"));
  m.def(
      "_check_sampling",
      [](double temperature, int64_t top_k, double top_p, double repetition_penalty) {
        check_sampling({.temperature = temperature,
                        .top_k = top_k,
                        .top_p = top_p,
                        .repetition_penalty = repetition_penalty});
      },
      "temperature"_a, "top_k"_a, "top_p"_a, "repetition_penalty"_a);

  const FunctionDoc of_embed = docs.of(
      embed_door,
      {.name = "embed",
       .arguments = {weights,
                     {.name = "texts",
                      .annotation = "typing.Any",
                      .text = "A list of texts, or tokens as train() takes them: a document each. "
                              "Or such that are fetched, and a stream that ends.",
                      .type = "list of str or of array_like [L]"},
                     model,
                     {.name = "*"},
                     {"columns", "str | None", "None",
                      "The name of the text in records that are fetched.", "str, optional"},
                     {"workers", "int | None", "None",
                      "How many threads fetch texts by their index, also while the network "
                      "answers. By default one, between its steps."},
                     tokenizer},
       .returned = "numpy.ndarray",
       .doc = {.summary = "Embeds texts by a network that was trained on pairs of texts.",
               .returns = "Float32 [N, E], each row of norm 1.",
               .examples =
                   R"(>>> pairs = [{"anchor": str(n), "positive": f"n{n}"} for n in range(200)]
>>> trained = accrue.train("gpt-tiny", pairs, tokenizer="bytes", context=16, steps=1)
>>> accrue.embed(trained.weights, ["four", "five", "six"]).shape
(3, 128))"}});
  m.def("embed", &embed, "weights"_a.none(), "texts"_a, "model"_a = nb::none(), nb::kw_only(),
        "tokenizer"_a = "", "options"_a, nb::sig(of_embed.signature), of_embed.doc);
}

}  // namespace accrue::python
