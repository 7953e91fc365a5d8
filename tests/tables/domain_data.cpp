// Tables in files as fields of a data set.

#include "tables/domain_data.h"

#include <algorithm>
#include <cmath>

#include "tables/domain.h"
#include "tables/table_regression.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace accrue::test {
namespace {

struct TableFolder : TemporaryDirectory {
  std::string operator()(const std::string& text, const std::string& name = "t.csv") const {
    write(name, text);
    return (path() / name).string();
  }
};

const std::string people =
    "age,city,\"income, net\",kind\r\n"
    "30,Ulm,1e3,b\r\n"
    "40,\"Bad \"\"Ems\"\"\",2000,a\r\n"
    "50,Ulm,3000,b\r\n"
    "60,Jena,-4000.5,a\r\n";

TableColumns columns_of(const Dataset& data) {
  return TableColumns::read(data.taught.at(table_key));
}

}  // namespace

TEST_CASE("a table's numbers are standardized, and its classes are numbers each", "[data]") {
  const TableFolder folder;
  const Datasets data = read_table(folder(people), {.targets = {"kind"}, .hold_out = 0});
  REQUIRE(data.test.is_trained_on);
  const TableColumns columns = columns_of(data.train);
  REQUIRE(columns.loss == "cross-entropy");
  REQUIRE(columns.classes == std::vector<std::string>{"a", "b"});
  REQUIRE(columns.features.at(1).classes == std::vector<std::string>{"Bad \"Ems\"", "Jena", "Ulm"});
  REQUIRE(columns.features.at(2).name == "income, net");
  const Tensor& x = data.train["features"];
  REQUIRE(x.shape() == Shape{4, 5});
  const double std = std::sqrt(125.0);  // of 30, 40, 50, 60
  REQUIRE(x.span<float>()[0] == float((30 - 45) / std));
  REQUIRE(x.span<float>()[15] == float((60 - 45) / std));
  for (const auto& [at, value] : {std::pair{1, 0}, {2, 0}, {3, 1}, {6, 1}, {7, 0}, {8, 0}, {17, 1}})
    REQUIRE(x.span<float>()[size_t(at)] == float(value));
  REQUIRE(data.train["targets"].span<int32_t>()[0] == 1);
  REQUIRE(columns.written() == TableColumns::read(columns.written()).written());

  // As these weights know the columns, a table may have others, and in another order.
  TableOptions later{.targets = {"kind"}, .hold_out = 0, .known = columns};
  const Dataset same = read_table(folder("kind,more,\"income, net\",city,age\n"
                                         "b,x,1000,Ulm,30\n",
                                         "u.csv"),
                                  later)
                           .train;
  for (size_t i = 0; i < 5; ++i) REQUIRE(same["features"].span<float>()[i] == x.span<float>()[i]);
  REQUIRE(same["targets"].span<int32_t>()[0] == 1);
  const Dataset asked =
      read_questions(folder("age,city,\"income, net\"\n30,Ulm,1000\n", "v.csv"), later);
  REQUIRE(!asked.has("targets"));
  REQUIRE(asked["features"].span<float>()[0] == x.span<float>()[0]);
  const auto refused = [&](const std::string& text, const std::string& part) {
    REQUIRE_ERROR(read_table(folder(text, "w.csv"), later), part);
  };
  refused("age,city,\"income, net\",kind\n3,Rom,1,a\n",
          "line 2, column 'city' is 'Rom', but the network has learned");
  refused("age,city,\"income, net\",kind\n3,Ulm,1,a\n4,Ulm,1,c\n",
          "line 3, column 'kind' is 'c', but the classes are a, b");
  refused("age,city,kind\n3,Ulm,a\n", "has no column 'income, net'");
}

TEST_CASE("rows are held out by their number, and measured without", "[data]") {
  const TableFolder folder;
  std::string text = "x,y\n";
  for (int n = 0; n < 50; ++n) text += fmt::format("{},{}\n", n, n % 7 + 0.5);
  const std::string path = folder(text);
  const Datasets data = read_table(path, {.targets = {"y"}, .hold_out = 0.2});
  REQUIRE(data.train.size() == 40);
  REQUIRE(data.test.size() == 10);
  REQUIRE(!data.test.is_trained_on);
  const TableColumns columns = columns_of(data.train);
  double sum = 0, squares = 0, of_targets = 0, all = 0;
  for (const float x : data.train["features"].span<float>())
    sum += double(x), squares += double(x * x);
  for (const float y : data.train["targets"].span<float>()) of_targets += double(y);
  REQUIRE(std::abs(sum) < 1e-4);
  REQUIRE(squares / 40 == Approx(1).epsilon(1e-5));
  REQUIRE(std::abs(of_targets) < 1e-4);
  for (const Dataset* part : {&data.train, &data.test})
    for (const float x : part->field("features").values.span<float>())
      all += double(x) * columns.features[0].std + columns.features[0].mean;
  REQUIRE(all == Approx(50 * 49 / 2).epsilon(1e-5));  // each row is in one part
}

TEST_CASE("a table of one row is tested with the row that is trained on", "[data]") {
  const TableFolder folder;
  const Datasets data = read_table(folder("x,y\n1,0.5\n"), {.targets = {"y"}});
  REQUIRE(data.test.is_trained_on);
  REQUIRE_THAT(data.train.about, ContainsSubstring("1 row to train, tested with the same"));
}

TEST_CASE("columns of one value, and of any size, are standardized", "[data]") {
  const TableFolder folder;
  std::string text = "tenth,huge,tiny,y\n";
  for (int n = 0; n < 54; ++n)
    text += fmt::format("0.1,{}e200,{}e-200,{}\n", n % 2 * 2 - 1, n % 2, n + 0.5);
  const std::string path = folder(text);
  TableOptions options{.targets = {"y"}, .hold_out = 0};
  const Dataset data = read_table(path, options).train;
  const TableColumns columns = columns_of(data);
  REQUIRE(columns.features[0].mean == 0.1);  // by sums it would be rounded
  REQUIRE(columns.features[0].std == 1);
  REQUIRE(columns.features[1].std == Approx(1e200));
  REQUIRE(columns.features[2].std == Approx(0.5e-200));
  const auto x = data["features"].span<float>();
  for (const auto& [at, value] : {std::pair{0, 0}, {1, -1}, {2, -1}, {3, 0}, {4, 1}, {5, 1}})
    REQUIRE(x[size_t(at)] == Approx(value));
  options.known = columns;
  REQUIRE_ERROR(read_questions(folder("tenth,huge,tiny\n0.1,0,0\n1e60,0,0\n", "far.csv"), options),
                "line 3, column 'tenth' is 1e+60, too far from the mean 0.1");
  REQUIRE_ERROR(read_table(folder("x,w,y\n1,1e39,a\n2,1,b\n3,1,a\n"),
                           {.targets = {"y"}, .weights = "w", .hold_out = 0}),
                "line 2, column 'w' is 1e+39, expected a weight that float32 can hold");
}

TEST_CASE("the targets of a table say what is learned, unless a loss is named", "[data]") {
  const TableFolder folder;
  const auto loss = [&](const std::string& text, std::vector<std::string> targets,
                        const std::string& named = "") {
    const Datasets data =
        read_table(folder(text), {.targets = std::move(targets), .loss = named, .hold_out = 0});
    const Field& field = data.train.field("targets");
    return fmt::format("{} {} {}", columns_of(data.train).loss, field.values.shape(),
                       field.classes);
  };
  const std::string wide = "x,a,b,c\n1,1,0,0\n2,0,1,0\n3,0,0,1\n";
  REQUIRE(loss(wide, {"a", "b", "c"}) == "bce [3, 3] 3");
  REQUIRE(loss(wide, {"a", "b", "c"}, "cross-entropy") == "cross-entropy [3] 3");
  REQUIRE(loss(wide, {"a", "b", "c"}, "l1") == "l1 [3, 3] 3");
  REQUIRE(loss(wide, {"a"}, "cross-entropy") == "cross-entropy [3] 2");
  REQUIRE(loss("x,y\n1,0.5\n2,1\n3,2\n", {"y"}) == "mse [3, 1] 1");
  REQUIRE(loss("x,y\n1,9007199254740993\n2,9007199254740992\n3,9007199254740992\n4,1\n4,1.0\n",
               {"y"}, "cross-entropy") == "cross-entropy [5] 3");
  const auto refused = [&](const std::string& text, std::vector<std::string> targets,
                           const std::string& named, const std::string& part) {
    REQUIRE_ERROR(loss(text, std::move(targets), named), part);
  };
  refused(wide, {"a"}, "", "expected --loss cross-entropy if they are classes, or --loss mse");
  refused("x,a,b\n1,1,0\n2,1,1\n", {"a", "b"}, "cross-entropy",
          "line 3: 2 of the columns of --target are 1 and 0 are 0");
  refused("x,a,b\n1,1,0\n2,0.5,1\n", {"a", "b"}, "bce",
          "line 3, column 'a' is 0.5, expected 0 or 1");
  refused("x,y\n1,0.5\n2,zwei\n", {"y"}, "", "line 3, column 'y' is 'zwei'");
  refused("x,y\n1,a\n2,b\n", {"y"}, "mse", "line 2, column 'y' is 'a'");
  refused("x,y\n1,a\n2,b\n3,c\n", {"y"}, "", "has another class in each of its 3 rows");
}

TEST_CASE("what is wrong in a table is named by line and column", "[data]") {
  const TableFolder folder;
  const auto refused = [&](const std::string& text, const std::string& part,
                           TableOptions options = {.targets = {"y"}}) {
    REQUIRE_ERROR(read_table(folder(text), options), part);
  };
  refused("x,y\n1,a\n,b\n3,a\n", "line 3, column 'x': the number is missing ('')");
  refused("x,y\n1,a\nNaN,b\n3,a\n", "line 3, column 'x': the number is missing ('NaN')");
  refused("x,z,y\n1,u,a\n2,,b\n3,u,a\n", "line 3, column 'z': there is no value");
  refused("x,y\n1,a\n2,\n3,a\n", "line 3, column 'y': there is no value");
  refused("x,y\n1,a\n2x,b\n3,a\n", "line 3, column 'x' is '2x', expected a finite number");
  refused("x,y\n1,a\n1e999,b\n3,a\n", "line 3, column 'x' is '1e999'");
  for (const std::string first : {"inf", "1e999", "?x"})
    refused("x,y\n" + first + ",a\n2.5,b\n2.5,a\n",
            "line 3, column 'x' is the number 2.5, but the first value is '" + first);
  refused("x;y\n1,5;a\n2,5;b\n2,5;a\n",
          "line 2, column 'x' is '1,5', expected a decimal point in numbers, as in 1.5; "
          "--categories names columns of classes");
  refused("x,y\n1,NA\n2,0.5\n3,0.5\n",
          "line 3, column 'y' is the number 0.5, but the first value is 'NA'");
  refused(
      "gr\xf6\xdf"
      "e,y\n1,a\n2,b\n3,a\n",
      "the first line, has a text in another encoding");
  refused("x,y\n1,gr\xfcn\n2,rot\n3,rot\n",
          "line 2, column 'y' has a text in another encoding than UTF-8 or UTF-16");
  const std::string floors = folder("x,y\nground,a\n2,b\n2,a\n");
  REQUIRE(read_table(floors, {.targets = {"y"}, .categories = {"x"}}).train.size() == 2);
  refused("x,y\n1,a\n2\n", "line 3: it has 1 field, expected 2");
  refused("x,x,y\n1,1,a\n2,2,a\n3,1,b\n", "has several columns 'x'");
  refused(",x,y\n0,1,a\n1,2,a\n2,1,b\n", "column 1 has no name");
  refused("1,2\n3,4\n", "begins with numbers: expected a first line with the names");
  refused("x,y\n", "has names of columns and no rows");
  refused("x,z\n1,2\n", "--target y: ");
  refused("x,y\n1,a\n2,a\n3,a\n", "column 'y' of t.csv has one class alone, 'a'");
  refused("id,y\np1,a\np2,a\np3,b\n", "has 3 different texts in 3 rows");
  refused("y\na\na\nb\n", "expected some to learn from");
  refused("x,w,y\n1,1,a\n2,-1,b\n3,1,a\n", "line 3, column 'w' is -1, expected a weight",
          {.targets = {"y"}, .weights = "w", .hold_out = 0});
  refused("x,w,y\n1,0,a\n2,0,b\n3,0,a\n", "column 'w': all weights are 0",
          {.targets = {"y"}, .weights = "w", .hold_out = 0});
  refused("x,w,y\n1,0,a\n2,0,b\n3,1,a\n4,0,b\n", "all weights are 0 in the ",
          {.targets = {"y"}, .weights = "w", .hold_out = 0.75});
  refused("\"p,q\",y\n1,a\n2,b\n3,a\n", "has no such column, but p,q, y; a column with a comma",
          {.targets = {"y"}, .left_out = {"p", "q"}});
  refused("x,y\n1,a\n2,b\n3,a\n", "--leave-out z: ", {.targets = {"y"}, .left_out = {"z"}});
}

TEST_CASE("columns are left out, are classes, or count rows if that is asked for", "[data]") {
  const TableFolder folder;
  const Datasets data = read_table(
      folder("id,zip,w,y\np,2,1,a\nq,1,0.5,b\nr,2,3,a\n"),
      {.targets = {"y"}, .left_out = {"id"}, .categories = {"zip"}, .weights = "w", .hold_out = 0});
  const TableColumns columns = columns_of(data.train);
  REQUIRE(columns.features.size() == 1);
  REQUIRE(columns.features[0].classes == std::vector<std::string>{"1", "2"});
  REQUIRE(data.train["weights"].span<float>()[1] == 0.5F);
  REQUIRE_THAT(data.train.about, ContainsSubstring("not used: id"));
}

TEST_CASE("a column of a table has one use, and weights keep how they see it", "[data]") {
  const TableFolder folder;
  const std::string path = folder("a,zip,y,z\n1,1,0.5,2\n2,2,1.5,3\n3,1,2.5,4\n");
  const auto refused = [&](TableOptions options, const std::string& part) {
    options.hold_out = 0;
    REQUIRE_ERROR(read_table(path, options), part);
  };
  refused({.targets = {"y"}, .weights = "y"}, "--weight-column y is a column of --target");
  refused({.targets = {"y"}, .categories = {"y"}}, "--categories y is a column of --target");
  TableOptions later{.targets = {"y"}, .left_out = {"z"}, .categories = {"zip"}, .hold_out = 0};
  later.known = columns_of(read_table(path, later).train);
  REQUIRE(read_table(path, later).train.size() == 3);
  const auto with = [&](auto change) {
    TableOptions changed = later;
    change(changed);
    return changed;
  };
  refused(with([](auto& o) { o.targets = {"z"}; }), "--target is z, but they were trained with y");
  refused(with([](auto& o) { o.targets = {"y", "z"}; }), "--target is y,z, but they were");
  refused(with([](auto& o) { o.targets = {"a"}, o.has_new_head = true; }),
          "--target a: the weights see the column a");
  refused(with([](auto& o) { o.left_out = {"a"}; }), "--leave-out a: the weights see the column a");
  refused(with([](auto& o) { o.categories = {"a"}; }),
          "--categories a: the weights see the column");
  refused(with([](auto& o) { o.weights = "zip"; }), "--weight-column zip: the weights see");
  for (const char* loss : {"cross-entropy", "bce"})
    refused(with([&](auto& o) { o.loss = loss; }),
            std::string("--loss ") + loss + ": the weights have learned by mse");
  REQUIRE(columns_of(read_table(path, with([](auto& o) { o.loss = "l1"; })).train).loss == "l1");
  // A column that the network sees may also count rows, and is asked about without that.
  later.weights = "a";
  REQUIRE(read_table(path, later).train["weights"].span<float>()[2] == 3);
  REQUIRE(read_questions(path, later)["features"].span<float>()[0] < 0);
}

TEST_CASE("R2 keeps its digits far from 0, and is none for targets that are all alike", "[data]") {
  const auto r2 = [](std::vector<float> targets) {
    const int64_t N = std::ssize(targets);
    Dataset data{"t"};
    data.fields = {{.name = "features",
                    .values = Tensor::full({N, 1}, 0, DType::f32, Device::cpu, Category::data),
                    .encoding = Encoding::number},
                   {.name = "targets",
                    .values = Tensor::empty({N, 1}, DType::f32, Device::cpu, Category::data),
                    .encoding = Encoding::number,
                    .classes = 1,
                    .class_names = {"y"}}};
    std::ranges::copy(targets, data.field("targets").values.span<float>().begin());
    const ObjectivePtr objective =
        table_regression(data.field("targets"), {.targets = {{.name = "y"}}, .loss = "mse"}, {});
    std::vector<double> sums(size_t(objective->sums()));
    sums.at(sums.size() - 2) = 6;  // squared errors
    for (const auto& metric : objective->score(sums, data).metrics)
      if (metric.name == "r2") return metric.value;
    return 0.0;
  };
  REQUIRE(std::isnan(r2({0.1F, 0.1F, 0.1F})));
  REQUIRE(std::isnan(r2(std::vector<float>(30, 1 / 3.0F))));
  const float far = 1 << 30;  // the squares of these need more than 53 bits
  REQUIRE(r2({far, far + 128, far + 256}) == 1 - 6 / 32768.0);
}

TEST_CASE("a directory of two tables has a test of its own", "[data]") {
  const TableFolder folder;
  folder("x,y\n1,a\n2,b\n3,a\n", "train.csv");
  folder("y,x\nb,4\n", "test.csv");
  Tables tables;
  REQUIRE(tables.claim(folder.path().string()) == Domain::Claim::own);
  tables.targets = {"y"};
  const Datasets data = tables.load({.data = folder.path().string()});
  REQUIRE(data.train.size() == 3);
  REQUIRE(data.test["features"].span<float>()[0] == float((4 - 2) / std::sqrt(2.0 / 3)));
  REQUIRE(data.test["targets"].span<int32_t>()[0] == 1);
  folder("", "more");
  REQUIRE(tables.claim(folder.path().string()) == Domain::Claim::none);
}

}  // namespace accrue::test
