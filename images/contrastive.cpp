#include "images/contrastive.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/inside.h"
#include "data/samples.h"
#include "kernels/arithmetic.h"
#include "kernels/concat.h"
#include "kernels/linear_cross_entropy.h"
#include "kernels/norm.h"
#include "kernels/segment_mean.h"

namespace accrue {
namespace {

// Gives the second view's forward other random numbers than the first's.
constexpr uint64_t second_view = uint64_t{0x7677} << 32;

// Rows in a chunk of the products in a score. With answers of 128 numbers, a chunk takes half the
// memory of the answers.
constexpr int64_t score_rows = 64;

// Converts 16 bits to float32: each row is the mean of a segment that is this row alone.
Tensor widened(const Tensor& x) {
  if (!is_16_bit_dtype(x.dtype())) return x;
  const int64_t n = x.size(0), E = x.size(1);
  const Tensor lengths =
      Tensor::from(std::vector<int32_t>(static_cast<size_t>(n), 1), {n, 1}, x.device());
  return segment_mean(x.reshape({n, 1, E}), lengths).reshape({n, E});
}

// The partner of each row: k ^ 1.
Tensor partners(int64_t rows, Device device) {
  std::vector<int32_t> partner(static_cast<size_t>(rows));
  for (size_t k = 0; k < partner.size(); ++k) partner[k] = static_cast<int32_t>(k ^ 1);
  return Tensor::from(partner, {rows}, device);
}

class Contrastive : public Objective {
 public:
  explicit Contrastive(const ContrastiveOptions& options) : options_(options) {
    check(options.temperature > 0 && options.answers > 0,
          "a contrastive loss of {} numbers at a temperature of {}: expected both above 0",
          options.answers, options.temperature);
  }
  std::string name() const override { return fmt::format("simclr({})", options_.temperature); }
  std::vector<std::string> targets() const override {
    std::vector<std::string> fields{"views"};
    if (options_.classes > 0) fields.push_back("labels");
    return fields;
  }
  bool is_of_window() const override { return true; }
  int64_t forwards() const override { return 2; }

  Tensor answer(const Layer& model, const Samples& samples, const Pass& pass) const override {
    Pass other = pass;
    other.seed ^= second_view;
    return widened(concat(
        {model.forward(samples["images"], pass), model.forward(samples["views"], other)}, 1));
  }
  Tensor window_loss(const Tensor& answers) const override { return loss_of(answers); }
  Tensor loss(const Tensor& answer, const Samples&) const override { return window_loss(answer); }

  // The loss needs all samples at once; the probe's sums are added sample by sample.
  bool scores_all_at_once() const override { return true; }
  int64_t sums() const override { return 1 + sums_of_probe(); }
  void add_score(const Tensor& sums, const Tensor& answer, const Samples& samples) const override {
    if (options_.classes == 0) return;
    const int64_t n = answer.size(0), D = options_.answers;
    const Tensor both = unit_rows(answer.reshape({2 * n, D}));
    add_on_host(sums, [&] {
      std::vector<double> own(static_cast<size_t>(this->sums()));
      const Tensor z = both.to(Device::cpu), labels = as_f32(samples["labels"]);
      std::vector<double> row(static_cast<size_t>(D) + 1, 1.0);
      for (int64_t i = 0; i < n; ++i) {
        dispatch_wide(z.dtype(), [&]<class T>() {
          std::copy_n(z.span<T>().data() + 2 * i * D, D, row.begin());
        });
        add_to_probe(own, row, size_t(labels.span<int32_t>()[size_t(i)]));
      }
      return own;
    });
  }
  void add_score_of_all(const Tensor& sums, const Tensor& answers) const override {
    add_mean(sums.slice(0, 1), loss_of(answers, score_rows), answers.size(0));
  }
  Score score(std::span<const double> sums, const Dataset& data) const override {
    Score score{.loss = sums[0] / double(data.size()), .samples = data.size()};
    if (options_.classes > 0) score.metrics = {{"probe", probe(sums, double(data.size()))}};
    return score;
  }

 private:
  Tensor loss_of(const Tensor& answers, int64_t chunk_rows = 0) const {
    const int64_t rows = 2 * answers.size(0);
    const Tensor z = unit_rows(answers.reshape({rows, answers.size(1) / 2}));
    return linear_cross_entropy(scale(z, 1 / options_.temperature), z, partners(rows, z.device()),
                                {}, chunk_rows, 0, OwnLogit::left_out);
  }
  // The probe's sums: the products of the rows (z, 1) with each other, their products with y, and
  // the number of samples of each class.
  size_t width() const { return size_t(options_.answers) + 1; }
  size_t classes() const { return size_t(options_.classes); }
  int64_t sums_of_probe() const {
    return options_.classes > 0 ? int64_t(width() * (width() + classes()) + classes()) : 0;
  }
  void add_to_probe(std::span<double> sums, std::span<const double> row, size_t label) const {
    for (size_t a = 0; a < width(); ++a) {
      for (size_t b = 0; b <= a; ++b) sums[1 + a * width() + b] += row[a] * row[b];
      sums[1 + width() * width() + a * classes() + label] += row[a];
    }
    sums[1 + width() * (width() + classes()) + label] += 1;
  }
  double probe(std::span<const double> sums, double samples) const;

  const ContrastiveOptions options_;
};

// G are the products of the rows (z, 1), and B their products with y. Least squares leave the
// residual sum_i |y[i]|^2 - tr(B^T G^-1 B). With Cholesky's G = L L^T, tr(B^T G^-1 B) = |L^-1 B|^2.
double Contrastive::probe(std::span<const double> sums, double samples) const {
  const size_t W = width(), C = classes();
  const auto part = [&](size_t begin, size_t end) {
    const auto found = sums.subspan(1 + begin, end - begin);
    return std::vector<double>(found.begin(), found.end());
  };
  std::vector<double> L = part(0, W * W), X = part(W * W, W * (W + C));
  double explained = 0;
  for (size_t a = 0; a < W; ++a) {
    // Keeps G invertible if some answers are linear functions of others.
    L[a * W + a] += 1e-6 * samples / double(W);
    for (size_t b = 0; b <= a; ++b) {
      for (size_t k = 0; k < b; ++k) L[a * W + b] -= L[a * W + k] * L[b * W + k];
      L[a * W + b] = a == b ? std::sqrt(L[a * W + a]) : L[a * W + b] / L[b * W + b];
    }
    for (size_t c = 0; c < C; ++c) {
      for (size_t k = 0; k < a; ++k) X[a * C + c] -= L[a * W + k] * X[k * C + c];
      X[a * C + c] /= L[a * W + a];
      explained += X[a * C + c] * X[a * C + c];
    }
  }
  double variance = samples;
  for (const double count : part(W * (W + C), W * (W + C) + C)) variance -= count * count / samples;
  return 1 - (samples - explained) / variance;
}

}  // namespace

ObjectivePtr contrastive(const ContrastiveOptions& options) {
  return std::make_shared<Contrastive>(options);
}

void detail::add_views(Dataset& data, Views which) {
  check(which == Views::equal || data.augmentation != nullptr,
        "two views of an image of '{}' would be the same: expected changes at random, such as "
        "the augmentation flip,crop=0.5,rotate,brightness,contrast",
        data.name);
  Field views = data.field("images");
  views.name = "views";
  // The views share the images' memory.
  if (!views.read) {
    views.read = [images = views.values](std::span<std::byte> row, int64_t sample) {
      std::ranges::copy(row_of(images, sample), row.begin());
    };
    views.values =
        Tensor::without_elements(views.values.shape(), views.values.dtype(), data.device());
  }
  data.fields.push_back(std::move(views));
  if (which == Views::equal) return;
  data.augmentation = [draw = data.augmentation](uint64_t seed, int64_t epoch, int64_t sample) {
    SampleChange first = draw(seed, epoch, sample);
    const SampleChange second = draw(seed ^ second_view, epoch, sample);
    return SampleChange{first.place, [first, second](std::span<std::byte> row, const Field& field) {
                          (field.name == "views" ? second : first).apply(row, field);
                        }};
  };
}

}  // namespace accrue
