#include "python/tokens.h"

#include <algorithm>
#include <deque>
#include <limits>

#include "core/memory_scope.h"
#include "python/arrays.h"
#include "text/text_pairs.h"
#include "train/weights.h"

namespace accrue::python {
namespace {

bool is_list_of_arrays(nb::handle object) {
  return nb::isinstance<nb::list>(object) && nb::len(object) > 0 &&
         (nb::hasattr(object[0], "__len__") || nb::hasattr(object[0], "__dlpack__"));
}

// A list's arrays, each a document, or the one array, whose rows may be several documents.
std::vector<Array> arrays_in(nb::handle object, const char* what) {
  if (!is_list_of_arrays(object)) return {as_array(object, what)};
  std::vector<Array> arrays;
  for (nb::handle item : object) arrays.push_back(as_array(item, what));
  return arrays;
}
Array first_in(nb::handle object, const char* what) {
  return as_array(is_list_of_arrays(object) ? nb::object(object[0]) : nb::borrow(object), what);
}

bool are_tokens(nb::handle object) {
  const Array first = first_in(object, "data");
  return is_integers(first) && first.ndim() >= 1 &&
         first.ndim() <= (is_list_of_arrays(object) ? 1U : 2U);
}

bool have_one_shape(const Array& a, const Array& b) {
  return std::equal(a.shape_ptr(), a.shape_ptr() + a.ndim(), b.shape_ptr(),
                    b.shape_ptr() + b.ndim());
}

// True for arrays of bool, which say whether tokens are to be learned. Takes any object.
bool says_what_is_learned(nb::handle object) {
  try {
    return is_truth(first_in(object, "learned"));
  } catch (const Error&) {
    return false;
  }
}

// The memory that the corpus of a caller's tokens consists of.
struct Kept {
  std::vector<Array> arrays;
  std::deque<std::vector<int32_t>> converted;
  std::vector<std::byte> learned;  // a bit for each token
};

class Reader {
 public:
  Reader(const std::vector<Array>& arrays, std::optional<int64_t> vocabulary)
      : width_(16 / 8), vocabulary_(vocabulary) {
    kept_.arrays = arrays;
    for (const Array& array : arrays)
      if (array.dtype().bits != 16) width_ = 32 / 8;
  }

  // An array of documents of `length` tokens.
  void add(const Array& array, size_t length) {
    with_integers(array, [&](auto tokens) {
      for (size_t i = 0; i < tokens.size(); ++i) {
        const int64_t most = vocabulary_.value_or(std::numeric_limits<int32_t>::max()) - 1;
        check(std::cmp_less_equal(0, tokens[i]) && std::cmp_less_equal(tokens[i], most),
              "document {} has the token {} at {}: expected 0 to {}", pieces_.size() + i / length,
              tokens[i], i % length, most);
        largest_ = std::max(largest_, static_cast<int32_t>(tokens[i]));
      }
      auto bytes = std::as_bytes(tokens);
      if (sizeof tokens[0] != width_)
        bytes =
            std::as_bytes(std::span(kept_.converted.emplace_back(tokens.begin(), tokens.end())));
      if (bytes.empty()) pieces_.push_back(bytes);
      for (; !bytes.empty(); bytes = bytes.subspan(length * width_))
        pieces_.push_back(bytes.first(length * width_));
    });
  }
  void add_learned(const Array& array) {
    const std::span is_learned(static_cast<const bool*>(array.data()), array.size());
    for (const bool is : is_learned) {
      if (count_ % 8 == 0) kept_.learned.emplace_back();
      kept_.learned.back() |= std::byte(is) << int(count_++ % 8);
    }
  }

  CorpusPtr finish() {
    Corpus::Parts parts{.token_bytes = int(width_), .tokens = std::move(pieces_)};
    const auto kept = kept_by_python(std::move(kept_));
    parts.learned = kept->learned;
    parts.keeps = kept;
    return corpus_in_memory({.name = "tokens",
                             .source = "the caller's data",
                             .vocabulary = vocabulary_.value_or(int64_t{largest_} + 1)},
                            std::move(parts));
  }

 private:
  size_t width_, count_ = 0;
  const std::optional<int64_t> vocabulary_;
  int32_t largest_ = 0;
  std::vector<std::span<const std::byte>> pieces_;
  Kept kept_;
};

}  // namespace

std::optional<Tokens> tokens_of(nb::handle data, std::optional<int64_t> vocabulary) {
  const bool has_learned = nb::isinstance<nb::tuple>(data);
  if (has_learned && (nb::len(data) != 2 || !says_what_is_learned(data[1]))) return {};
  const nb::object given = has_learned ? nb::object(data[0]) : nb::borrow(data);
  if (!are_tokens(given)) return {};
  const std::vector<Array> arrays = arrays_in(given, "data");
  std::optional<int64_t> row;
  Reader reader(arrays, vocabulary);
  size_t document = 0;
  for (const Array& array : arrays) {
    // An empty list has no type of its own.
    const bool has_type = is_integers(array) || array.size() == 0;
    check(has_type && array.ndim() == (arrays.size() > 1 ? 1 : arrays[0].ndim()),
          "document {} of data is {}: expected integers [L]", document, described(array));
    ++document;
    if (array.ndim() == 2) row = int64_t(array.shape(1));
    reader.add(array, array.shape(array.ndim() - 1));
  }
  if (!has_learned) return Tokens{reader.finish(), row};
  const std::vector<Array> learned = arrays_in(data[1], "learned");
  check(
      std::ranges::equal(arrays, learned, have_one_shape) && std::ranges::all_of(learned, is_truth),
      "learned does not fit the tokens: expected bool of the same shapes, True for tokens to "
      "learn");
  for (const Array& array : learned) reader.add_learned(array);
  return Tokens{reader.finish(), row};
}

namespace {

// Copies `part` to rows `begin`, ... of `all`, which has N, in float64 or else float32.
void put(Tensor& all, int64_t N, int64_t begin, const Tensor& part) {
  if (!all.defined())
    all = Tensor::empty(part.shape().with(0, N), wide(part.dtype()), Device::cpu, Category::data);
  copy_converted(all.slice(begin, begin + part.size(0)), part);
}

}  // namespace

Tensor logits_of(const Tokens& rows, const LanguageModel& model, int64_t micro_batch, Device device,
                 const StopRequest& stop) {
  const Corpus& corpus = *rows.corpus;
  const int64_t V = model.head().size(0);
  check_tokens(corpus, V);
  const int64_t N = std::ssize(corpus.documents().ends), T = corpus.size() / N;
  check(rows.row || N == 1, "x has {} of several lengths: expected integers [N, T] or [T]",
        counted(N, "document"));
  check(model.context() == 0 || T <= model.context(),
        "x has rows of {} tokens, but the model has {} positions: expected fewer", T,
        model.context());
  const NoGrad no_grad;
  Tensor all;
  for (int64_t begin = 0; begin < N; begin += micro_batch) {
    throw_if_stopped(stop);
    const int64_t n = std::min(micro_batch, N - begin);
    std::vector<int32_t> tokens(static_cast<size_t>(n * T));
    corpus.read(tokens, begin * T);
    const Tensor logits =
        model.forward(Tensor::from(tokens, {n, T}, device), Pass::eval()).to(Device::cpu);
    put(all, N, begin, logits.reshape({n, T, V}));
  }
  return all;
}

Tensor embeddings_of(const Tokens& documents, const LanguageModel& model, int64_t micro_batch,
                     Device device, const StopRequest& stop) {
  const Corpus& corpus = *documents.corpus;
  check_tokens(corpus, model.head().size(0));
  const std::span<const uint64_t> ends = corpus.documents().ends;
  const auto begin_of = [&](int64_t n) { return n == 0 ? 0 : int64_t(ends[size_t(n - 1)]); };
  const auto length_of = [&](int64_t n) { return int64_t(ends[size_t(n)]) - begin_of(n); };
  const int64_t N = std::ssize(ends);
  const NoGrad no_grad;
  Tensor all;
  for (int64_t begin = 0; begin < N; begin += micro_batch) {
    throw_if_stopped(stop);
    const int64_t n = std::min(micro_batch, N - begin);
    std::vector<int32_t> lengths;
    for (int64_t i = begin; i < begin + n; ++i) lengths.push_back(int32_t(length_of(i)));
    const int64_t T = *std::ranges::max_element(lengths);
    check(model.context() == 0 || T <= model.context(),
          "x has a document of {} tokens, but the model has {} positions: expected fewer", T,
          model.context());
    std::vector<int32_t> tokens(static_cast<size_t>(n * T));
    for (int64_t i = 0; i < n; ++i)
      corpus.read(std::span(tokens).subspan(size_t(i * T), size_t(lengths[size_t(i)])),
                  begin_of(begin + i));
    const Tensor rows = Tensor::from(tokens, {n, T}, device);
    const Tensor z =
        embed(model, {rows, positions_of(rows)}, Tensor::from(lengths, {n}, device), Pass::eval());
    put(all, N, begin, z.to(Device::cpu));
  }
  return all.defined() ? all : Tensor::empty({0, model.head().size(1)}, DType::f32, Device::cpu);
}

}  // namespace accrue::python
