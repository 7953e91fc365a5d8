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
#include "onnx/writer/onnx.h"
#include "train/training_options.h"

namespace accrue::detail {

// True for the name of a model that is a file, FILE.onnx.
inline constexpr const char* any_model_file = "*.onnx";
bool is_model_file(const std::string& model);

// A network that a domain offers by its name.
struct DomainModel {
  std::string name;   // "mlp"
  SampleSpec sample;  // that it learns from; sizes are examples, for use without data
  std::string data;   // the data set that it learns from unless another is given
  // The names of the settings that take effect with this model but not with every model: "depth". A
  // setting that some domain's model lists here has no effect with models that do not list it.
  std::vector<std::string> heeds{};
  // Scoring uses only the test data unless the user asks for more, because the training data is
  // much larger and its score says little.
  bool is_scored_on_test = false;
  bool takes_any_size = false;  // of samples; it answers for each of their places
  bool has_own_pixels = false;  // its pixels are -1 to 1, whatever the data set's normalization
  // The setting that gives it a norm independent of the micro-batch.
  std::string other_norm{};
  std::string pieces{};                 // the parts of a sample that throughput counts: "tokens"
  std::vector<std::string> no_decay{};  // the default of StepOptions::no_decay

  const std::string& input() const { return sample.input().name; }
  const std::string& classes() const { return sample.answer().name; }
};

// A user's choices for a network of any domain. A DomainModel lists those that take effect with it.
struct NetworkOptions {
  double width = 1;    // factor on hidden sizes and channels
  double dropout = 0;  // before the last layer
  InitScheme init = InitScheme::kaiming;
};

// The purpose of loading data. Training may use a part of the data where scoring and prediction use
// all of it. Data to predict may have fewer classes than the network.
enum class DataUse { training, scoring, prediction };

// A request for data of any domain.
struct DataRequest {
  std::string data;  // a name or a directory
  DataUse use = DataUse::training;
  std::optional<size_t> memory_limit{};
  SampleSpec learned{};  // by the network that will see the data; no fields if unknown
  std::optional<int64_t> known_classes{};  // of a network that may have more classes than the data
  std::set<std::string> given{};           // the names of the settings that the user gave
  // Returns the value of a setting of any domain as text, by its name; empty if there is no such
  // setting. Valid while the settings live.
  std::function<std::string(const std::string& setting)> value_of{};
  std::string value(const std::string& setting) const {
    return value_of ? value_of(setting) : std::string();
  }
};

// A kind of data, such as images: its models, data sets, objectives and settings, as a program
// needs them. An object holds values for its settings. A program has one list of domains
// (accrue/domains.h) and names them nowhere else.
class Domain {
 public:
  virtual ~Domain() = default;
  virtual std::unique_ptr<Domain> clone() const = 0;
  // A new object, whose settings have their usual values.
  virtual std::unique_ptr<Domain> fresh() const = 0;
  // Copies the values from another object of the same type.
  virtual void assign(const Domain& other) = 0;

  // Each setting is under a heading of the program's (settings_of(Request&), job/request.h) or
  // under networks_heading(). Some settings are fields of the training.
  virtual Settings settings(TrainingOptions& training) = 0;
  // The heading for the settings of its networks and their training; empty if there are none.
  virtual std::string networks_heading() const { return {}; }

  virtual std::vector<DomainModel> models() const = 0;
  // Takes a file that the user names as the model (is_model_file()); models() then lists it under
  // this name. Returns false if the domain has no such models. Throws Error, which begins with
  // "model", if the file cannot be read.
  virtual bool open_model(const std::string& /*name*/) { return false; }
  // The values that its open model gives to settings of any domain, by name, where the user gives
  // none. `given` are the settings that the user gave.
  virtual Metadata implied_settings(const std::set<std::string>& /*given*/) const { return {}; }
  // Gives a placed model the values that it begins with, and their rounded copies. Returns false if
  // they are drawn.
  virtual bool fill(const SampleSpec& /*sample*/, const Parameters& /*parameters*/) const {
    return false;
  }
  // The file of its open model with these weights; nothing if the model is no file.
  virtual std::optional<std::string> own_file(const SampleSpec& /*sample*/,
                                              const Parameters& /*parameters*/) const {
    return {};
  }
  // The model that its settings imply; empty if they imply none. `asked` is the model that the user
  // names, or empty. Throws Error if that is a different model.
  virtual std::string implied_model(const std::string& /*asked*/) const { return {}; }
  // title() is the model's usual name, for models whose weights state one. is_called() is true if
  // the model also goes by `name`.
  virtual std::string title(const std::string& model) const { return model; }
  virtual bool is_called(const std::string& model, const std::string& name) const {
    return name == title(model);
  }
  // Returns a factory for one of its models, for such samples.
  virtual ModelFactory factory(const std::string& model, const NetworkOptions& options,
                               const SampleSpec& sample) const = 0;
  // An example of the inputs and answer of one of its networks, for N samples. By default the
  // answer is logits, and the input is the network's input field, as indices or numbers.
  virtual Example example(const Layer& network, const SampleSpec& sample, int64_t N) const;
  // The players of a game, if its models are games of networks that train each other; the last one
  // is the model.
  virtual std::vector<PlayerOptions> players(const NetworkOptions& options,
                                             const SampleSpec& sample,
                                             const StepOptions& step) const;
  virtual ObjectivePtr objective(const Dataset& data) const = 0;
  // The factory or players together with the objective, for samples as in the data.
  Task task(const std::string& model, const NetworkOptions& options, const SampleSpec& sample,
            const StepOptions& step, const Dataset& data) const;
  // The number of classes in a file of weights, for networks that may have more classes than the
  // data.
  virtual std::optional<int64_t> classes_in(const std::string& weights) const;
  // remember() reads from a file of weights and its metadata the facts about the network that are
  // not values of settings. remembered() returns the metadata that files made from the network
  // should state beside the settings.
  virtual void remember(const std::string&, const Metadata&) {}
  virtual Metadata remembered() const { return {}; }
  // The field whose classes a model tells apart: one class in each sample or a mask for each. Null
  // if the model's answer is something else. By default the field that the model answers, if it is
  // of this kind.
  virtual const Field* told_apart(const DomainModel& model, const Dataset& data) const;
  // The two functions handle metadata about the samples that a model of any domain has learned,
  // beyond the values of settings (Saved::by_domain). seen() returns it for a file of weights;
  // see() takes it from a file. `given` are the settings that the user gave.
  virtual Metadata seen(const DomainModel& /*model*/) const { return {}; }
  virtual void see(const SampleSpec& /*learned*/, const Metadata& /*said*/,
                   const std::set<std::string>& /*given*/) {}
  // The samples that a network which has learned `learned` is asked about, according to the
  // settings.
  virtual SampleSpec asked(const SampleSpec& learned,
                           const std::set<std::string>& /*given*/) const {
    return learned;
  }
  // The conversion of pixels of any domain's data to numbers, if its settings define one.
  virtual std::optional<Normalization> pixels() const { return {}; }
  // The metadata that training on this data adds to saved weights. It replaces the metadata of the
  // initial weights; an empty value removes an entry.
  virtual Metadata taught_by(const Dataset&) const { return {}; }
  // Further values that decide a run's result, by name. They add to the values of settings or
  // replace them.
  virtual Metadata identity() const { return {}; }
  // Warnings about data that is unusual for one of its models, but not an error.
  virtual std::vector<std::string> warnings(const std::string&, const Dataset&) const { return {}; }
  // Facts about one of its models that a user should know before a training.
  virtual std::vector<std::string> remarks(const std::string&, const Dataset&) const { return {}; }
  // Tells the user how to get answers from this domain's networks. Used where a command has been
  // given weights of another domain.
  virtual std::string where_it_answers() const { return "accrue.predict() in Python asks it"; }
  // The meaning of its scores and of its players' terms, by name.
  virtual Descriptions descriptions() const { return {}; }
  // Throws Error if a run of this many windows makes no sense for its models.
  virtual void check_run(int64_t windows) const;

  // `own`: one of its data sets, or data in one of its formats; `directory`: a directory that it
  // may be able to read.
  enum class Claim { none, directory, own };
  virtual Claim claim(const std::string& data) const = 0;
  virtual std::vector<std::string> data_sets() const = 0;  // by name
  // The directory that holds one of its data sets; nothing if the data set needs none.
  virtual std::optional<std::filesystem::path> directory_of(const std::string& data) const;
  // True if a setting with SettingFacts::data has an effect with data of this domain. Throws Error
  // if it can name a setting to use instead.
  virtual bool heeds(const std::string& setting, const std::string& data) const;
  virtual Datasets load(const DataRequest& request) const = 0;
  // Converts data of any domain to the form that one of its models sees. Throws Error if the model
  // cannot learn from it.
  virtual void fit(Datasets& data, const DomainModel& model, const DataRequest& request) const = 0;
  // Adds this domain's augmentation to training data of any domain. Throws Error if it cannot do
  // what its settings ask for.
  virtual void augment(Dataset& data, const DataRequest& request) const;
};

// All domains of a program, with the values of their settings. A copy has separate values.
// Assignment copies the values but keeps the objects, because tables of settings refer to them.
class Domains {
 public:
  explicit Domains(std::vector<std::unique_ptr<Domain>> all) : all_(std::move(all)) {}
  Domains(const Domains& others);
  Domains(Domains&&) = default;
  Domains& operator=(const Domains& others);
  ~Domains() = default;

  // New objects of the same types, whose settings have their usual values.
  Domains fresh() const;

  // Adds one, after the others.
  void add(std::unique_ptr<Domain> domain) { all_.push_back(std::move(domain)); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

  // The models of all domains, in the order of their names.
  std::vector<DomainModel> models() const;
  // For each setting that not every model takes, by name: the names of the models with which it
  // takes effect.
  std::map<std::string, std::vector<std::string>> models_that_heed() const;
  // These three throw Error if no domain has a model of this name.
  DomainModel model(const std::string& name) const;
  const Domain& of_model(const std::string& name) const { return *all_[number_of_model(name)]; }
  size_t number_of_model(const std::string& name) const;

  // The model that a domain's settings imply; empty if none does. `asked` is the model that the
  // user names, or empty. Throws Error if that is a different model.
  std::string implied_model(const std::string& asked = {}) const;
  // The domain that has a data set of this name, or else the one with the strongest claim to the
  // data; the last one of several.
  const Domain& of_data(const std::string& data) const;
  Domain::Claim claim(const std::string& data) const { return of_data(data).claim(data); }
  std::vector<std::string> data_sets() const;

  // The conversion of pixels to numbers.
  Normalization pixels() const;

  // The domain of this type. Throws std::bad_cast if there is none.
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
  // The domain of a model if it is of this type, else null.
  template <class D>
  const D* of_model_as(const std::string& name) const {
    return dynamic_cast<const D*>(&of_model(name));
  }

 private:
  std::vector<std::unique_ptr<Domain>> all_;
};

}  // namespace accrue::detail
