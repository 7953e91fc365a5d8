#pragma once

#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace accrue {

// Settings are the fields of a struct of options by name, with explanations for people. A table of
// them (settings_of(TrainingOptions&), train/training_options.h) is all that a program needs to
// read, explain, pass on and record its options.

namespace detail {

// The range of numbers that a setting accepts.
struct Interval {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool without_low = false;

  bool has(double x) const { return (without_low ? low < x : low <= x) && x <= high; }
  // "above 0", "0 to 1024", or nothing for all numbers.
  std::string describe() const;
};
inline constexpr Interval above_zero{.low = 0, .without_low = true};
inline constexpr Interval zero_or_more{.low = 0};

// How a setting decides a run's result. `result`: a run with another value is another run and
// cannot resume from this one's checkpoint. `content`: the content of the data at the setting's
// path decides, not the path; the run's identity records the content instead. `no_result`: it is
// the same run. It may round, start or stop differently, or the deciding part is in the data.
enum class Decides { result, content, no_result };

// Whether a setting is saved with weights. It is if it decides what the network computes
// (with_weights). It also is if it decides how answers are scored or drawn; then a command may give
// another value (with_scores).
enum class Saved {
  no,
  with_weights,
  with_scores,
  by_domain  // if its domain says so: it decides how samples are seen (Domain::seen())
};

// The cases in which a setting has an effect; without any, it always has. In each case, all
// conditions must be met. A condition is about another setting: it must have one of these values,
// or none of them. If the table lacks that setting, the condition is met.
struct ActsWith {
  enum class Has { one_of, none_of };
  struct Condition {
    std::string name;
    std::vector<std::string> values;  // "*.csv" stands for all values that end so
    Has has = Has::one_of;

    bool is_met_by(const std::string& value) const;
  };
  using Case = std::vector<Condition>;

  ActsWith() = default;
  ActsWith(std::initializer_list<Condition> one) : cases{Case(one)} {}
  friend ActsWith operator||(ActsWith a, const ActsWith& b) {
    a.cases.insert(a.cases.end(), b.cases.begin(), b.cases.end());
    return a;
  }

  std::vector<Case> cases{};
};

// The machines and processes on which a setting has an effect.
enum class ActsOn { everything, cpu, gpu, several_processes };

// The kind of path that a setting's value is, if any. Used to check that no output replaces an
// input or another output.
enum class Path {
  none,
  input,      // a file or a directory that is read
  file,       // an output that cannot be part of a data set
  text,       // the same, and "-" is standard output
  sample,     // an output that would count as a sample in a data set's folder
  directory,  // for many files that are written
  answers     // a directory of images and tables that are written
};
constexpr bool is_output(Path path) { return path != Path::none && path != Path::input; }

// How help describes the value that a setting takes: "FILE"; if empty, by the field's type and
// range.
struct Takes : std::string {
  Takes(const char* text) : std::string(text) {}
  Takes(std::string text = {}, Path as = Path::none) : std::string(std::move(text)), path(as) {}
  Path path = Path::none;
};
inline Takes reads(std::string text) { return {std::move(text), Path::input}; }
inline Takes writes(std::string text, Path path = Path::file) { return {std::move(text), path}; }

// Which ranks write an output of a run that several processes share.
enum class WrittenBy { first_rank, all_ranks };

// Who is likely to want a setting. Short help shows only those for most runs.
enum class AskedBy { some_runs, most_runs };

// Where a setting has an effect: only in training, in the scoring of answers, in the reading of
// samples, or in the answers of trained weights. All settings saved with weights have the latter.
enum class ActsIn { training, scores, samples, answers };

// Whether a run's memory or time depends on a setting. It never depends on an output.
enum class Costs { some, nothing };

struct SettingFacts {
  std::string name;  // "clip-norm"
  Decides decides;
  std::string help;
  Takes takes{};
  std::string unset{};                    // the effect of leaving it unset: "0.999; for lion 0.99"
  Interval range{};                       // of a number
  std::map<std::string, double> words{};  // words that stand for a number: {"auto", ...}
  std::string alias{};                    // another name
  std::string needs{}, excludes{};        // the names of settings
  ActsWith acts_with{};
  ActsOn acts_on = ActsOn::everything;
  std::string rather{};  // the setting to suggest if this one has no effect
  Saved saved = Saved::no;
  std::string data{};  // the data with which it has an effect, if not all: "a folder of images"
  // The setting of the program before which a domain's setting is listed; empty: among the
  // domain's.
  std::string before{};
  ActsIn acts_in = ActsIn::training;
  Costs costs = Costs::some;
  WrittenBy written_by = WrittenBy::first_rank;
  AskedBy asked_by = AskedBy::some_runs;
  // The names that other programs or other commands use for it, each with the text to append to its
  // own name: {"gpu", " cuda"} suggests --device cuda.
  std::map<std::string, std::string> elsewhere{};
  // If an earlier domain has a setting of the same name, one value sets both, and the setting has
  // an effect where either has one. Otherwise the later domain's takes its place.
  bool with_namesake = false;
};

// The type of a setting's field, or of each element of its list: any text, one of several words, or
// a number.
enum class Holds { text, choice, whole_number, number };

}  // namespace detail

// A field that can be set and read as text, by its name.
struct Setting {
  detail::SettingFacts about;
  std::string group;  // the heading that it is listed under
  detail::Holds holds = detail::Holds::text;
  bool is_flag = false, is_list = false;
  // The value as text in the form that set() takes; empty if unset; "yes" or "no" for a flag.
  std::function<std::string()> text{};
  // Throws an Error that describes the accepted values for any other text.
  std::function<void(const std::string&)> set{};

  // True if weights are saved with this setting's value whenever it has an effect.
  bool is_saved() const {
    return about.saved == detail::Saved::with_weights || about.saved == detail::Saved::with_scores;
  }
  // True if it takes several values, with commas between them.
  bool takes_several() const { return is_list || about.takes.find(",...") != std::string::npos; }
  bool is_output() const { return accrue::detail::is_output(about.takes.path); }
  detail::ActsIn acts_in() const {
    return about.saved == detail::Saved::with_weights ? detail::ActsIn::answers : about.acts_in;
  }
  // True if its effect depends on the setting of this name.
  bool acts_with(const std::string& name) const;
  bool has_cost() const { return about.costs == detail::Costs::some && !is_output(); }
  // The possible words of a choice.
  std::vector<std::string> choices() const;
  // Like set(), for a value that a user gave: empty text is an error, too.
  void give(const std::string& text) const;
};

// A table of settings. The struct that holds the fields must outlive it.
class Settings {
 public:
  // Sets the heading of the settings that are added next.
  Settings& group(std::string heading);
  // Adds a number (double, int64_t, uint64_t) or a string, a value that may be absent
  // (std::optional), or a list (std::vector), written with commas.
  template <class T>
  Settings& add(T& field, detail::SettingFacts about);
  // Adds a choice among the names of several values, in upper or lower case.
  template <class Enum>
  Settings& add(Enum& field, const std::map<std::string, Enum>& names, detail::SettingFacts about) {
    std::map<std::string, int> values;
    for (const auto& [name, value] : names) values[name] = static_cast<int>(value);
    return add_choice([&field] { return static_cast<int>(field); },
                      [&field](int value) { field = static_cast<Enum>(value); }, std::move(values),
                      std::move(about));
  }
  // Does the same for a choice that may be absent. SettingFacts::unset is then the name of absence.
  template <class Enum>
  Settings& add(std::optional<Enum>& field, const std::map<std::string, Enum>& names,
                detail::SettingFacts about) {
    std::map<std::string, int> values;
    for (const auto& [name, value] : names) values[name] = static_cast<int>(value);
    constexpr int absent = -1;
    if (!about.unset.empty()) values[about.unset] = absent;
    const auto set = [&field](int value) {
      field.reset();
      if (value != absent) field = static_cast<Enum>(value);
    };
    return add_choice([&field] { return field ? static_cast<int>(*field) : absent; }, set,
                      std::move(values), std::move(about));
  }
  // Adds a choice of one of these texts.
  Settings& add(std::string& field, const std::vector<std::string>& choices,
                detail::SettingFacts about);
  // Adds a flag: the field becomes `on` if the flag is given.
  Settings& add_flag(bool& field, bool on, detail::SettingFacts about);
  Settings& append(const Settings& others);
  Settings& append(Settings&& others);
  // Appends the table of a later domain. A setting of a name that is here already takes its place,
  // or is set together with it (SettingFacts::with_namesake).
  Settings& append_later(const Settings& others);
  // Adds another table's setting under this table's current heading, with other facts.
  Settings& add_again(Setting other, detail::SettingFacts about);

  // Throws Error, which suggests a similar name, if there is no setting of this name.
  const Setting& at(const std::string& name) const;
  bool has(const std::string& name) const;
  // False if the values of other settings leave this one without an effect.
  bool has_effect(const Setting& setting) const { return lacking(setting).empty(); }
  // The changes that would give this setting an effect: for each case, the conditions that are not
  // met. Empty if it has an effect.
  std::vector<detail::ActsWith::Case> lacking(const Setting& setting) const;
  // Adds a condition to each named setting that is in the table: it has an effect only if `other`
  // has one of the values listed for it.
  void act_with(const std::string& other,
                const std::map<std::string, std::vector<std::string>>& values);
  // Lets a setting accept text that it refuses: take() gets the text and the message of the
  // refusal. text() is the setting's value from then on.
  using Take = std::function<void(const std::string& text, const std::string& refusal)>;
  void also_take(const std::string& name, const Take& take,
                 const std::function<std::string()>& text);
  // The settings for which keep() is true, in the order of the table.
  Settings where(const std::function<bool(const Setting&)>& keep) const;
  // The settings in these groups, without these names, or with only these names. in() and without()
  // keep the order of the table; only() has the order of the names. They throw Error for an unknown
  // group or name.
  Settings in(const std::vector<std::string>& groups) const;
  Settings without(std::initializer_list<std::string> names) const;
  Settings only(std::initializer_list<std::string> names) const;
  // The table for a command that tries all values of this setting: conditions on it are removed.
  Settings trying(const std::string& name) const;
  // A table for reading only: set() throws.
  Settings read_only() const;
  // The table without this setting, whose value is fixed, and without the settings that have no
  // effect with that value.
  Settings settled(const std::string& name) const;

  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

 private:
  Settings& add_choice(std::function<int()> get, std::function<void(int)> set,
                       std::map<std::string, int> values, detail::SettingFacts about);
  Settings& push(Setting setting);

  std::string group_;
  std::vector<Setting> all_;
};

namespace detail {

// The word among `words` that a mistyped word most likely means, or nothing.
std::optional<std::string> nearest_word(const std::string& word,
                                        const std::vector<std::string>& words);

}  // namespace detail

}  // namespace accrue
