#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/sample_spec.h"
#include "train/onnx/onnx.h"
#include "train/training_options.h"

namespace accrue::detail {

// A network that a domain offers by its name.
struct DomainModel {
  std::string name;   // "mlp"
  SampleSpec sample;  // that it learns from, in the sizes in which it is shown without data
  std::string data;   // the data set that it learns from if no other is given
  // The settings that not every model heeds and this one does, by name: "depth". One that any
  // domain's model heeds has no effect with others.
  std::vector<std::string> heeds{};
  // Its training data are much more than the test, which says what is asked: that alone is scored
  // unless somebody asks for more.
  bool is_scored_on_test = false;
  bool takes_any_size = false;  // of samples, and answers for each of their places
  bool has_own_pixels = false;  // -1 to 1, whatever the data set's normalization
  // The setting that gives it a norm that does not depend on the micro-batch.
  std::string other_norm{};
  std::string pieces{};  // of a sample, which throughput counts in its place: "tokens"
  std::vector<std::string> no_decay{};  // StepOptions::no_decay where that was not asked for

  const std::string& input() const { return sample.input().name; }
  const std::string& classes() const { return sample.answer().name; }
};

// What a user chooses of a network of any domain; DomainModel::heeds says which of it a model
// heeds.
struct NetworkOptions {
  double width = 1;    // factor on hidden sizes and channels
  double dropout = 0;  // before the last layer
  InitScheme init = InitScheme::kaiming;
};

// Data to score and to predict may be seen as a whole where a part is trained on; data to predict
// may have fewer classes than the network.
enum class DataUse { training, scoring, prediction };

// What is asked of data of any domain.
struct DataRequest {
  std::string data;  // a name or a directory
  DataUse use = DataUse::training;
  std::optional<size_t> memory_limit{};
  SampleSpec learned{};  // by the network that is to see it; without fields where nothing says it
  std::optional<int64_t> known_classes{};  // of a network that may have more than the data
  std::set<std::string> given{};           // the names of the settings that were asked for
  // The value of a setting of any domain as text, by its name, as long as they live; empty if there
  // is none of this name.
  std::function<std::string(const std::string& setting)> value_of{};
  std::string value(const std::string& setting) const {
    return value_of ? value_of(setting) : std::string();
  }
};

// What belongs to one kind of data, such as images: its models, data sets, objectives and settings,
// as a program needs them. An object has values for its settings. A program has one list of domains
// (accrue/domains.h) and names none of them elsewhere.
class Domain {
 public:
  virtual ~Domain() = default;
  virtual std::unique_ptr<Domain> clone() const = 0;
  // A new one, whose settings have their usual values.
  virtual std::unique_ptr<Domain> fresh() const = 0;
  // Takes the values of another of the same type.
  virtual void assign(const Domain& other) = 0;

  // Each stands under a heading of the program's (settings_of(Request&), job/request.h) or
  // under networks_heading(). Some are fields of the training.
  virtual Settings settings(TrainingOptions& training) = 0;
  // The heading of the settings of its networks and of how they are trained; empty if it has none.
  virtual std::string networks_heading() const { return {}; }

  virtual std::vector<DomainModel> models() const = 0;
  // The one that its settings imply, if somebody asks for none or by one of its names; empty if
  // they imply none. Throws Error for another one.
  virtual std::string implied_model(const std::string& /*asked*/) const { return {}; }
  // What people call it, where its weights say that, and whether it has this name, too.
  virtual std::string title(const std::string& model) const { return model; }
  virtual bool is_called(const std::string& model, const std::string& name) const {
    return name == title(model);
  }
  // What makes one of its models for such samples.
  virtual ModelFactory factory(const std::string& model, const NetworkOptions& options,
                               const SampleSpec& sample) const = 0;
  // An example of what one of its networks computes. By default those are logits of what it sees,
  // numbers.
  virtual Example example(const Layer& network, const SampleSpec& sample) const;
  // The networks that train each other, if its models are games; the last is the model.
  virtual std::vector<PlayerOptions> players(const NetworkOptions& options,
                                             const SampleSpec& sample,
                                             const StepOptions& step) const;
  virtual ObjectivePtr objective(const Dataset& data) const = 0;
  // These together, for samples as the data has them.
  Task task(const std::string& model, const NetworkOptions& options, const SampleSpec& sample,
            const StepOptions& step, const Dataset& data) const;
  // The number of classes that a file of weights has, where its network may have more of them than
  // the data.
  virtual std::optional<int64_t> classes_in(const std::string& weights) const;
  // Takes what a file of weights, and what it says, tell of their network beyond the values of
  // settings; and gives what the files of what comes of them shall say, beside those.
  virtual void remember(const std::string&, const Metadata&) {}
  virtual Metadata remembered() const { return {}; }
  // The field whose classes a model tells apart, one in each sample or a mask for each; null if it
  // answers with something else. By default that is what the model answers, where it is of this
  // kind.
  virtual const Field* told_apart(const DomainModel& model, const Dataset& data) const;
  // What files of weights of any domain's model say of the samples that it has learned, beyond the
  // values of settings (Saved::by_domain): how this domain sees such; and takes what a file says.
  // `given` are the settings that were asked for.
  virtual Metadata seen(const DomainModel& /*model*/) const { return {}; }
  virtual void see(const SampleSpec& /*learned*/, const Metadata& /*said*/,
                   const std::set<std::string>& /*given*/) {}
  // The samples about which a network that has learned these is asked, as settings say.
  virtual SampleSpec asked(const SampleSpec& learned,
                           const std::set<std::string>& /*given*/) const {
    return learned;
  }
  // How pixels of any domain's data become numbers, if its settings say that.
  virtual std::optional<Normalization> pixels() const { return {}; }
  // What they shall say of what data of this kind teaches them, in place of what the weights said
  // that they began with; nothing in the place of an empty value.
  virtual Metadata taught_by(const Dataset&) const { return {}; }
  // What decides a run beside the values of settings, or in their place, by their names.
  virtual Metadata identity() const { return {}; }
  // What is odd about data for one of its models, without being an error.
  virtual std::vector<std::string> warnings(const std::string&, const Dataset&) const { return {}; }
  // What the networks answer by that the weights it begins with are of, in words.
  virtual std::string where_it_answers() const { return "accrue.predict() in Python asks it"; }
  // The meaning of its scores and of its players' terms, by their names.
  virtual Descriptions descriptions() const { return {}; }
  // Throws Error for a run of so many windows that makes no sense for its models.
  virtual void check_run(int64_t windows) const;

  // `own`: one of its data sets or of its formats; `directory`: one that it may be able to read.
  enum class Claim { none, directory, own };
  virtual Claim claim(const std::string& data) const = 0;
  virtual std::vector<std::string> data_sets() const = 0;  // by name
  // The directory in which one of its data sets lies; nothing if that needs none.
  virtual std::optional<std::filesystem::path> directory_of(const std::string& data) const;
  // True if a setting with SettingFacts::data has an effect with data of this domain. Throws Error
  // where it can say what has that effect instead.
  virtual bool heeds(const std::string& setting, const std::string& data) const;
  virtual Datasets load(const DataRequest& request) const = 0;
  // Makes data of any domain what one of its models sees. Throws Error if the model cannot learn
  // from them.
  virtual void fit(Datasets& data, const DomainModel& model, const DataRequest& request) const = 0;
  // Adds what it changes in training data of any domain. Throws Error where it cannot do what its
  // settings ask for.
  virtual void augment(Dataset& data, const DataRequest& request) const;
};

// All domains of a program, with their settings' values. A copy has values of its own. Assignment
// keeps the objects, to which tables of settings refer, and copies the values.
class Domains {
 public:
  explicit Domains(std::vector<std::unique_ptr<Domain>> all) : all_(std::move(all)) {}
  Domains(const Domains& others);
  Domains(Domains&&) = default;
  Domains& operator=(const Domains& others);
  ~Domains() = default;

  // New ones of the same types, whose settings have their usual values.
  Domains fresh() const;

  // Adds one, after the others.
  void add(std::unique_ptr<Domain> domain) { all_.push_back(std::move(domain)); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

  // The models of all domains, in the order of their names.
  std::vector<DomainModel> models() const;
  // The names of the models that heed a setting, by its name.
  std::map<std::string, std::vector<std::string>> models_that_heed() const;
  // These throw Error if no domain has a model of this name.
  DomainModel model(const std::string& name) const;
  const Domain& of_model(const std::string& name) const { return *all_[number_of_model(name)]; }
  size_t number_of_model(const std::string& name) const;

  // The model that the settings of a domain imply; empty if none does. Throws Error for another one
  // than is asked for.
  std::string implied_model(const std::string& asked = {}) const;
  // The domain that has a data set of this name, or else claims the data most; of several the last.
  const Domain& of_data(const std::string& data) const;
  Domain::Claim claim(const std::string& data) const { return of_data(data).claim(data); }
  std::vector<std::string> data_sets() const;

  // How pixels become numbers.
  Normalization pixels() const;

  // The one of this type. Throws std::bad_cast if there is none.
  template <class D>
  D& get() {
    for (const auto& domain : all_)
      if (auto* const found = dynamic_cast<D*>(domain.get())) return *found;
    throw std::bad_cast();
  }
  template <class D>
  const D& get() const {
    return const_cast<Domains&>(*this).get<D>();
  }
  // That of a model, if it is of this type; else null.
  template <class D>
  const D* of_model_as(const std::string& name) const {
    return dynamic_cast<const D*>(&of_model(name));
  }

 private:
  std::vector<std::unique_ptr<Domain>> all_;
};

}  // namespace accrue::detail
