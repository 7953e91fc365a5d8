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

// Settings: the fields of a struct of options by name, with their explanations for people. A table
// of them (settings_of(TrainingOptions&), train/training_options.h) is all that a program needs to
// read its options, to explain them, to pass them on and to write them down.

namespace detail {

// The numbers that a setting takes.
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

// `result`: a run with another value is another run, which cannot go on from this one's checkpoint.
// `content`: what lies there decides, wherever that is; the run says it in the setting's place.
// `no_result`: it is the same run, which may be rounded, begun or stopped elsewhere, or what
// decides is in the data.
enum class Decides { result, content, no_result };

// Whether weights are saved with it: it decides what their network computes, or how that is scored
// or drawn with, for which a command may give another value.
enum class Saved {
  no,
  with_weights,
  with_scores,
  by_domain  // where its domain says so: it decides how samples are seen (Domain::seen())
};

// The cases in which a setting has an effect; without any it always has. In a case each of its
// conditions is met: a setting has one of these values, or it has none of them. A table that lacks
// the setting meets the condition.
struct ActsWith {
  enum class Has { one_of, none_of };
  struct Condition {
    std::string name;
    std::vector<std::string> values;
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

// The path that a setting's value is, if it is one, so that no output replaces an input or another
// output.
enum class Path {
  none,
  input,      // a file or a directory that is read
  file,       // an output, of a kind that no data set is made of
  text,       // likewise, and "-" is standard output
  sample,     // an output that would be taken for a sample in a data set's folder
  directory,  // of many files that are written
  answers     // a directory of images and tables that are written
};
constexpr bool is_output(Path path) { return path != Path::none && path != Path::input; }

// How people are told what a setting takes: "FILE"; if empty, the field's type and range say it.
struct Takes : std::string {
  Takes(const char* text) : std::string(text) {}
  Takes(std::string text = {}, Path as = Path::none) : std::string(std::move(text)), path(as) {}
  Path path = Path::none;
};
inline Takes reads(std::string text) { return {std::move(text), Path::input}; }
inline Takes writes(std::string text, Path path = Path::file) { return {std::move(text), path}; }

// Who writes an output of a run that several processes share.
enum class WrittenBy { first_rank, all_ranks };

// Whether people are shown a setting that they have not asked for.
enum class AskedBy { some_runs, most_runs };

// Where a setting acts beside training: in what trained weights answer, which those do that they
// are saved with, in the samples that are read for them, or in how their answers are scored.
enum class ActsIn { training, scores, samples, answers };

// Whether a run's memory or time depends on a setting. On an output they never do.
enum class Costs { some, nothing };

struct SettingFacts {
  std::string name;  // "clip-norm"
  Decides decides;
  std::string help;
  Takes takes{};
  std::string unset{};                    // the effect of not setting it: "0.999; for lion 0.99"
  Interval range{};                       // of a number
  std::map<std::string, double> words{};  // that stand for a number: {"auto", ...}
  std::string alias{};                    // another name
  std::string needs{}, excludes{};        // the name of a setting
  ActsWith acts_with{};
  ActsOn acts_on = ActsOn::everything;
  std::string rather{};  // the setting that is likely to be meant where this one has none
  Saved saved = Saved::no;
  std::string data{};  // the data that it has an effect with, if not all: "a folder of images"
  // The setting of a program before which a domain's stands; without, it stands among the domains'.
  std::string before{};
  ActsIn acts_in = ActsIn::training;
  Costs costs = Costs::some;
  WrittenBy written_by = WrittenBy::first_rank;
  AskedBy asked_by = AskedBy::some_runs;
  // The names that other programs, or other commands, have for it, each with what is to be said
  // after its own: {"gpu", " cuda"} for --device cuda.
  std::map<std::string, std::string> elsewhere{};
};

// What a setting's field holds, or each element of its list: a text of any kind, one of several
// words, or a number.
enum class Holds { text, choice, whole_number, number };

}  // namespace detail

// A field that is set and read by its name, as text.
struct Setting {
  detail::SettingFacts about;
  std::string group;  // the heading that it stands under
  detail::Holds holds = detail::Holds::text;
  bool is_flag = false, is_list = false;
  // The value as text that set() takes; empty if it is not set; "yes" or "no" for a flag.
  std::function<std::string()> text{};
  // Throws Error, which says what the setting takes, for any other text.
  std::function<void(const std::string&)> set{};

  // True if weights are saved with its value whenever it has an effect.
  bool is_saved() const {
    return about.saved == detail::Saved::with_weights || about.saved == detail::Saved::with_scores;
  }
  // Several with commas between them.
  bool takes_several() const { return is_list || about.takes.find(",...") != std::string::npos; }
  bool is_output() const { return accrue::detail::is_output(about.takes.path); }
  detail::ActsIn acts_in() const {
    return about.saved == detail::Saved::with_weights ? detail::ActsIn::answers : about.acts_in;
  }
  // Whether that depends on a setting of this name.
  bool acts_with(const std::string& name) const;
  bool has_cost() const { return about.costs == detail::Costs::some && !is_output(); }
  // The words that a choice is made of.
  std::vector<std::string> choices() const;
  // As set(), for what somebody gives by name: an empty text, which says nothing, is an error, too.
  void give(const std::string& text) const;
};

// A table of settings. The struct whose fields it names must outlive it.
class Settings {
 public:
  // Sets the heading of the settings that are added next.
  Settings& group(std::string heading);
  // Adds a number (double, int64_t, uint64_t) or a string, one that may be absent (std::optional),
  // or a list of them (std::vector), written with commas.
  template <class T>
  Settings& add(T& field, detail::SettingFacts about);
  // Adds a choice of several values by their names, in letters of either case.
  template <class Enum>
  Settings& add(Enum& field, const std::map<std::string, Enum>& names, detail::SettingFacts about) {
    std::map<std::string, int> values;
    for (const auto& [name, value] : names) values[name] = static_cast<int>(value);
    return add_choice([&field] { return static_cast<int>(field); },
                      [&field](int value) { field = static_cast<Enum>(value); }, std::move(values),
                      std::move(about));
  }
  // As above, for a choice that may be absent; SettingFacts::unset is then its name.
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
  // Adds another table's setting under the heading here, with other facts.
  Settings& add_again(Setting other, detail::SettingFacts about);

  // Throws Error, with the name that may be meant, if there is no setting of this name.
  const Setting& at(const std::string& name) const;
  bool has(const std::string& name) const;
  // False if another setting makes this one do nothing.
  bool has_effect(const Setting& setting) const { return lacking(setting).empty(); }
  // What would let this one do something: of each case the conditions that are not met. Nothing if
  // it has an effect.
  std::vector<detail::ActsWith::Case> lacking(const Setting& setting) const;
  // Gives each setting that is named here, and is in the table, an effect only where `other` has
  // one of the values beside it, as well.
  void act_with(const std::string& other,
                const std::map<std::string, std::vector<std::string>>& values);
  // Lets a setting take what it refuses, where take() keeps it, with the words of the refusal.
  using Take = std::function<void(const std::string& text, const std::string& refusal)>;
  void also_take(const std::string& name, const Take& take);
  // The settings for which keep() is true, in the order of the table.
  Settings where(const std::function<bool(const Setting&)>& keep) const;
  // The settings in these groups, without these names, or with only these names, in the order of
  // the table. They throw Error for a group or name that is not there.
  Settings in(const std::vector<std::string>& groups) const;
  Settings without(std::initializer_list<std::string> names) const;
  Settings only(std::initializer_list<std::string> names) const;
  // A command that tries all values of this setting does not ask what it is.
  Settings trying(const std::string& name) const;
  // To be looked at alone: set() throws.
  Settings read_only() const;
  // Without this setting, whose value is settled, and without those that do nothing with it.
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

// The word among `words` that a mistyped one is likely to mean, or nothing.
std::optional<std::string> nearest_word(const std::string& word,
                                        const std::vector<std::string>& words);

}  // namespace detail

}  // namespace accrue
