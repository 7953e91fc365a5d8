// Tables in the program: training, scores and answers.

#include <cmath>

#include "tests/support/cli.h"

namespace accrue::test {
namespace {

// Rows whose answers follow from two numbers and a class, with some noise.
struct TablesFolder : Folder {
  TablesFolder() {
    std::string text = "a,b,place,kind,size,red,big,w\n";
    for (int n = 0; n < 120; ++n) {
      const double a = std::sin(n * 1.7) * 3 + 10, b = std::cos(n * 2.9) * 50;
      const bool is_north = n % 3 == 0;
      const double size = 2 * a + b / 10 + (is_north ? 5 : 0) + 0.1 * std::sin(n * 7.0);
      text += fmt::format("{:.4f},{:.4f},{},{},{:.4f},{},{},{}\n", a, b,
                          is_north ? "north" : "south", size > 22 ? "large" : "small", size,
                          b > 0 ? 1 : 0, size > 20 ? 1 : 0, n % 4 == 0 ? 2 : 1);
    }
    write("t.csv", text);
  }
  std::string data() const { return " --data " + (*this / "t.csv"); }
};

const std::string of_kind = " --target kind --leave-out size,red,big,w ";
const std::string of_size = " --target size --leave-out kind,red,big,w ";
const std::string of_labels = " --target red,big --leave-out kind,size,w ";

}  // namespace

TEST_CASE("a table is learned alike in every split, and its memory is predicted", "[cli]") {
  const TablesFolder folder;
  for (const std::string& task :
       {of_kind + "--sample-weight w", of_size + "--loss smooth-l1", of_labels}) {
    std::vector<double> losses;
    for (const int micro : {8, 3, 1}) {
      const std::string log = folder / "log";
      const std::string told =
          succeed("train" + task + folder.data() + " --steps 3 --effective-batch 8 --json " + log +
                  " --micro-batch " + std::to_string(micro));
      REQUIRE_THAT(told, ContainsSubstring("predicted to the byte"));
      const double loss = json_steps(log).at(2)["loss"].get<double>();
      losses.push_back(loss);
      REQUIRE(loss == Approx(losses.front()).epsilon(1e-6));
    }
  }
}

TEST_CASE("a table of classes is scored by class, and answered as the weights say", "[cli]") {
  const TablesFolder folder;
  const std::string weights = folder / "w.safetensors", log = folder / "log";
  succeed("train" + of_kind + folder.data() + " --epochs 30 --micro-batch 8 --lr 0.01 --save " +
          weights + " --json " + log);
  const auto score = json_lines(log).back()["test"];
  REQUIRE(score["accuracy"].get<double>() > 80);
  REQUIRE(score.contains("accuracy.large"));
  REQUIRE(score.contains("balanced_accuracy"));
  const Metadata said = read_safetensors_metadata(weights);
  REQUIRE(said.at("model") == "table-mlp");
  REQUIRE(said.at("target") == "kind");
  REQUIRE(said.at("loss") == "cross-entropy");
  REQUIRE(!said.contains("label-smoothing"));
  REQUIRE_THAT(succeed("eval --split test --init " + weights + folder.data()),
               ContainsSubstring(fmt::format("loss {:.4f}", score["loss"].get<double>())));

  folder.TemporaryDirectory::write("asked.csv",
                                   "place,b,a\nsouth,-40.0,7.5\nnorth,45,12.5\nsouth,45,12.5\n");
  const std::string asked = folder / "asked.csv", out = folder / "out";
  succeed("predict --weights " + weights + " --data " + asked + " --out " + out);
  const std::string answers = file_bytes(out + "/predictions.csv");
  REQUIRE(answers.starts_with("sample,class,large,small\n0,small,"));
  REQUIRE_THAT(answers, ContainsSubstring("\n1,large,"));
  succeed("predict --weights " + weights + " " + asked + " --out " + out);
  REQUIRE(file_bytes(out + "/predictions.csv") == answers);
  refuse("predict --weights " + weights + " --overlay --data " + asked + " --out " + out,
         "--overlay has no effect with a table");
  refuse("predict --weights " + weights + " --weight-column w --data " + asked + " --out " + out,
         "--weight-column has no effect here");
  folder.TemporaryDirectory::write("bad.csv", "place,b,a\nsouth,-40.0,\n");
  refuse("predict --weights " + weights + " --data " + (folder / "bad.csv") + " --out " + out,
         "line 2, column 'a': the number is missing");
  const std::string other = " --target size --init " + weights + folder.data();
  refuse("eval" + other, "--target is size, but they were");
  const std::string size = folder / "size.safetensors";
  succeed("train --new-head --loss mse --micro-batch 8 --steps 1 --save " + size + other);
  REQUIRE(read_safetensors_metadata(size).at("target") == "size");
  REQUIRE(read_safetensors_metadata(size).at("loss") == "mse");
  REQUIRE_THAT(succeed("info --init " + size), ContainsSubstring("linear 4 -> 32 + relu"));
}

TEST_CASE("a table of numbers is answered in its own units", "[cli]") {
  const TablesFolder folder;
  const std::string weights = folder / "w.safetensors", log = folder / "log", out = folder / "out";
  succeed("train --model table-linear" + of_size + folder.data() +
          " --epochs 60 --micro-batch 8 --lr 0.02 --hold-out 0 --save " + weights + " --json " +
          log);
  const auto score = json_lines(log).back()["test"];
  REQUIRE(score["r2"].get<double>() > 0.99);
  succeed("predict --weights " + weights + folder.data() + " --out " + out);
  std::istringstream answers(file_bytes(out + "/predictions.csv")),
      rows(file_bytes(folder / "t.csv"));
  std::string answer, row;
  std::getline(answers, answer);
  std::getline(rows, row);
  REQUIRE(answer == "sample,size");
  double squares = 0, distances = 0;
  int count = 0;
  while (std::getline(answers, answer) && std::getline(rows, row)) {
    std::vector<std::string> cells;
    std::istringstream cut(row);
    for (std::string cell; std::getline(cut, cell, ',');) cells.push_back(cell);
    const double error = std::stod(answer.substr(answer.find(',') + 1)) - std::stod(cells.at(4));
    squares += error * error;
    distances += std::abs(error);
    ++count;
  }
  REQUIRE(count == 120);
  REQUIRE(score["rmse"].get<double>() == Approx(std::sqrt(squares / count)).epsilon(1e-3));
  REQUIRE(score["mae"].get<double>() == Approx(distances / count).epsilon(1e-3));
}

TEST_CASE("a table of labels has F1, and a run of a table goes on where it stopped", "[cli]") {
  const TablesFolder folder;
  const std::string log = folder / "log", checkpoints = " --checkpoint-dir " + (folder / "c"),
                    first = folder / "first.safetensors", second = folder / "second.safetensors";
  const std::string train = "train" + of_labels + folder.data() +
                            " --effective-batch 10 --micro-batch 4 --lr 0.01 --epochs 4 ";
  succeed(train + "--json " + log + " --save " + first);
  const auto score = json_lines(log).back()["test"];
  REQUIRE(score["f1"].get<double>() > 0);
  REQUIRE(score.contains("f1.red"));
  REQUIRE(score.contains("accuracy"));
  succeed(train + "--max-minutes 1 --steps 20" + checkpoints);
  succeed(train + "--resume --save " + second + checkpoints);
  REQUIRE(file_bytes(first) == file_bytes(second));
  succeed("predict --weights " + first + folder.data() + " --out " + (folder / "out"));
  REQUIRE(file_bytes(folder / "out/predictions.csv")
              .starts_with("sample,red,big,red.probability,big.probability\n0,"));
}

TEST_CASE("options of tables are refused where they do not fit", "[cli]") {
  const TablesFolder folder;
  const std::string train = "train --steps 1 --micro-batch 2" + folder.data();
  refuse(train, "is a table: expected --target COLUMN");
  refuse(train + " --target nothing", "--target nothing: ");
  refuse(train + of_kind + "--loss mse", "column 'kind' is 'large', expected a finite number");
  refuse(train + of_kind + "--loss dice", "--loss dice: a table takes cross-entropy");
  refuse(train + of_size + "--class-weights balanced", "--class-weights: the loss of t.csv is mse");
  refuse(train + of_size + "--label-smoothing 0.1", "--label-smoothing: the loss of t.csv is mse");
  refuse(train + of_size + "--by-class", "--by-class: the loss of t.csv is mse");
  refuse(train + of_size + "--model mlp", "expected --model table-mlp or table-linear");
  refuse("train --model table-mlp --data digits --steps 1", "learns columns of a table");
  refuse("train --model mlp --target x --steps 1", "--target names columns of a table");
  refuse("train --model mlp --weight-column x --steps 1", "--weight-column has no effect");
  REQUIRE_THAT(succeed(train + of_kind + "--class-weights balanced"),
               ContainsSubstring("class weights large "));
}

}  // namespace accrue::test
