// From a file of comma-separated values to a trained, saved and loaded network, which predicts a
// class from four numbers. Standardizes the columns with Eigen, plans in a budget of memory,
// trains, scores, saves, and answers for one row.

#include <accrue/accrue.h>
#include <accrue/eigen.h>

#include <fstream>
#include <random>

using namespace accrue;

// A file as another program might write it: flowers of three kinds, which differ in length.
void write_flowers(const std::string& path, int rows, unsigned seed) {
  std::ofstream file(path);
  std::mt19937 random(seed);
  std::normal_distribution<float> noise;
  file << "petal length,petal width,sepal length,sepal width,kind\n";
  for (int row = 0; row < rows; ++row) {
    const int kind = int(random() % 3);
    for (const float mean : {1.5f + 2 * kind, 0.3f + 0.8f * kind, 5 + 0.8f * kind, 3.2f})
      file << mean + 0.4f * noise(random) << ',';
    file << kind << '\n';
  }
}

Dataset read_flowers(const std::string& path) {
  const Table table = read_csv(path);
  const std::span columns(table.columns());
  return {"flowers",
          path,
          {{"features", table.numbers(columns.first(4)), Encoding::number},
           {"kinds", table.indices("kind", 3), Encoding::index, 3}}};
}

// The mean and deviation of each column of the training data, used to standardize later data, too.
struct Columns {
  Eigen::RowVectorXf mean, deviation;
};

Columns columns_of(const Dataset& data) {
  const auto x = as_matrix<const float>(data["features"]);  // the tensor's elements, not a copy
  const Eigen::RowVectorXf mean = x.colwise().mean();
  return {mean, ((x.rowwise() - mean).colwise().squaredNorm() / float(x.rows())).cwiseSqrt()};
}

void standardise(const Dataset& data, const Columns& columns) {
  auto x = as_matrix<float>(data["features"]).array();
  x.rowwise() -= columns.mean.array();
  x.rowwise() /= columns.deviation.array();
}

// Parameters are named after the declared layers: "hidden.weight".
class Classifier : public Layer {
 public:
  Classifier() {
    declare("hidden", hidden_);
    declare("head", head_);
  }
  Tensor forward(Tensor x, const Pass& pass) const override {
    return head_(hidden_(std::move(x), pass), pass);
  }
  std::string describe() const override { return "a hidden layer and a head"; }

 private:
  Linear hidden_{4, 32, Activation::relu}, head_{32, 3};
};

int main() {
  write_flowers("train.csv", 3000, 1);
  write_flowers("test.csv", 500, 2);
  const Datasets flowers{read_flowers("train.csv"), read_flowers("test.csv")};
  const Columns columns = columns_of(flowers.train);
  standardise(flowers.train, columns);
  standardise(flowers.test, columns);

  TrainingOptions options;
  options.model = [] { return std::make_unique<Classifier>(); };
  options.objective = classification("features", "kinds");
  options.batches = {.micro = 10, .effective = 30};
  options.schedule.base = 1e-2;
  options.epochs = 3;
  const Usage peak = predict_peak(options, flowers, Device::cpu);
  fmt::print("predicted: {}\n", format_bytes(peak.total()));

  Trainer trainer(options, flowers.train, Device::cpu);
  Observer silent;
  trainer.run(silent);
  fmt::print("test {}\n", trainer.evaluate(flowers.test).describe());
  trainer.save_weights("flowers.safetensors");

  // In another program: the same layers, with the saved weights.
  const auto model = options.model();
  Parameters parameters = place(*model, DType::f32, Device::cpu, /*seed=*/0);
  load_weights("flowers.safetensors", parameters);
  const NoGrad no_grad;
  const Tensor logits = (*model)(flowers.test["features"].slice(0, 1), Pass::eval());
  fmt::print("the first flower: {:.2f}\n", fmt::join(logits.span<float>(), ", "));
}
