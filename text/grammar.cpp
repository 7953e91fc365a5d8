#include "text/grammar.h"

#include <array>
#include <string_view>

#include "core/error.h"
#include "core/inside.h"
#include "core/random.h"

namespace accrue {
namespace {

enum class Number { singular, plural };

// A word in the singular and the plural.
struct Word {
  std::string_view singular, plural;
  std::string_view in(Number n) const { return n == Number::singular ? singular : plural; }
};

constexpr std::array nouns{
    Word{"dog", "dogs"},       Word{"cat", "cats"},         Word{"fox", "foxes"},
    Word{"king", "kings"},     Word{"queen", "queens"},     Word{"baker", "bakers"},
    Word{"child", "children"}, Word{"woman", "women"},      Word{"man", "men"},
    Word{"bird", "birds"},     Word{"mouse", "mice"},       Word{"teacher", "teachers"},
    Word{"sailor", "sailors"}, Word{"farmer", "farmers"},   Word{"goose", "geese"},
    Word{"thief", "thieves"},  Word{"painter", "painters"}, Word{"giant", "giants"}};
constexpr std::array things{
    Word{"river", "rivers"},   Word{"tree", "trees"},       Word{"house", "houses"},
    Word{"garden", "gardens"}, Word{"bridge", "bridges"},   Word{"tower", "towers"},
    Word{"boat", "boats"},     Word{"lantern", "lanterns"}, Word{"hill", "hills"},
    Word{"market", "markets"}, Word{"stone", "stones"},     Word{"window", "windows"}};
constexpr std::array acts{
    Word{"sleeps", "sleep"},       Word{"sings", "sing"},        Word{"waits", "wait"},
    Word{"dances", "dance"},       Word{"laughs", "laugh"},      Word{"shouts", "shout"},
    Word{"dreams", "dream"},       Word{"is late", "are late"},  Word{"is happy", "are happy"},
    Word{"was here", "were here"}, Word{"has gone", "have gone"}};
constexpr std::array deeds{Word{"sees", "see"},       Word{"loves", "love"},
                           Word{"follows", "follow"}, Word{"finds", "find"},
                           Word{"paints", "paint"},   Word{"watches", "watch"},
                           Word{"knows", "know"},     Word{"admires", "admire"},
                           Word{"forgets", "forget"}, Word{"has seen", "have seen"}};
constexpr std::array<std::string_view, 12> adjectives{"old",   "small",  "quiet",  "brave",
                                                      "tired", "young",  "green",  "proud",
                                                      "tall",  "clever", "gentle", "strange"};
constexpr std::array<std::string_view, 8> places{"near",   "behind",   "under", "beside",
                                                 "across", "far from", "above", "around"};
constexpr std::array<std::string_view, 5> singular_articles{"the", "the", "a", "this", "every"};
constexpr std::array<std::string_view, 5> plural_articles{"the", "the", "some", "these", "two"};
constexpr std::array<std::string_view, 8> adverbs{"today",   "again",   "at night", "in the rain",
                                                  "at last", "all day", "too",      "slowly"};

// Makes the sentences of a document.
class Speaker {
 public:
  Speaker(uint64_t seed, uint64_t stream) : random_(seed, stream) {}

  std::string document() {
    constexpr size_t least = 50, most = 300;
    const size_t wanted = least + random_.below(180);
    if (random_.below(2) == 0) name_ = made_up_name();
    std::string text;
    while (text.size() < wanted) {
      const std::string next = sentence(text.empty());
      if (text.size() + 1 + next.size() > most) continue;
      if (!text.empty()) text += ' ';
      text += next;
    }
    return text;
  }

 private:
  template <size_t n>
  std::string_view one_of(const std::array<std::string_view, n>& words) {
    return words[random_.below(n)];
  }
  template <size_t n>
  std::string_view one_of(const std::array<Word, n>& words, Number number) {
    return words[random_.below(n)].in(number);
  }
  bool happens(uint32_t in_hundred) { return random_.below(100) < in_hundred; }
  Number any_number() { return happens(50) ? Number::singular : Number::plural; }

  std::string made_up_name() {
    constexpr std::string_view consonants = "bdfghklmnprstvz", vowels = "aeiou";
    std::string name;
    for (uint32_t left = 2 + random_.below(3); left > 0; --left) {
      name += consonants[random_.below(consonants.size())];
      name += vowels[random_.below(vowels.size())];
    }
    name[0] = static_cast<char>(name[0] - 'a' + 'A');
    return name;
  }

  static bool is_vowel(char c) {
    return std::string_view("aeiou").find(c) != std::string_view::npos;
  }

  // "the brave dogs"; "an old king".
  template <size_t n>
  std::string named(const std::array<Word, n>& words, Number number) {
    std::string text(one_of(number == Number::singular ? singular_articles : plural_articles));
    std::string rest;
    if (happens(35)) rest = std::string(one_of(adjectives)) + ' ';
    rest += one_of(words, number);
    if (text == "a" && is_vowel(rest[0])) text += 'n';
    return text + ' ' + rest;
  }

  // A noun with an optional phrase between it and its verb. `depth` limits how deep phrases nest.
  std::string subject(Number number, int depth) {
    std::string text = named(nouns, number);
    if (depth == 0) return text;
    switch (random_.below(6)) {
      case 0: return text + ' ' + std::string(one_of(places)) + ' ' + named(things, any_number());
      case 1: {  // the dogs that see a king
        text += " that ";
        text += one_of(deeds, number);
        return text + ' ' + subject(any_number(), depth - 1);
      }
      case 2: {  // the dogs that a king sees
        const Number other = any_number();
        text += " that " + subject(other, depth - 1) + ' ';
        return text.append(one_of(deeds, other));
      }
      case 3: return text + ' ' + aside(depth);
      default: return text;
    }
  }

  // "(near the river [a king sleeps] of stone)"
  std::string aside(int depth) {
    constexpr std::array<std::string_view, 3> kinds{"()", "[]", "{}"};
    const std::string_view kind = one_of(kinds);
    std::string text(1, kind[0]);
    if (happens(50)) {
      text += std::string(one_of(places)) + ' ' + named(things, any_number());
      if (depth > 1 && happens(60)) text += ' ' + aside(depth - 1);
    } else {
      const Number number = any_number();
      text += depth > 1 && happens(60) ? named(nouns, number) + ' ' + aside(depth - 1)
                                       : named(nouns, number);
      text += ' ';
      text += one_of(acts, number);
    }
    return text + kind[1];
  }

  std::string predicate(Number number) {
    std::string text;
    if (happens(50)) {
      text = one_of(acts, number);
    } else {
      text = std::string(one_of(deeds, number)) + ' ';
      text += !name_.empty() && happens(30) ? name_
              : happens(50)                 ? named(things, any_number())
                                            : named(nouns, any_number());
    }
    if (happens(25)) text += ' ' + std::string(one_of(adverbs));
    return text;
  }

  // A sentence about the person with the name. The first one always introduces the name.
  std::string sentence_with_name(bool is_first) {
    if (is_first) {
      const std::string who = named(nouns, Number::singular);
      return happens(50) ? who + " called " + name_ + ' ' + predicate(Number::singular) + '.'
                         : name_ + " is the name of " + who + '.';
    }
    switch (random_.below(4)) {
      case 0: {
        const Number number = any_number();
        return "\"" + name_ + "!\" " + std::string(number == Number::singular ? "cries " : "cry ") +
               subject(number, 1) + '.';
      }
      case 1: {
        const Number number = any_number();
        return name_ + ", whom " + subject(number, 1) + ' ' + std::string(one_of(deeds, number)) +
               ", " + predicate(Number::singular) + '.';
      }
      case 2: return name_ + ' ' + aside(2) + ' ' + predicate(Number::singular) + '.';
      default:
        return name_ + " and " + subject(any_number(), 2) + ' ' + predicate(Number::plural) + '.';
    }
  }

  std::string sentence(bool is_first) {
    std::string text;
    if (!name_.empty() && (is_first || happens(60))) {
      text = sentence_with_name(is_first);
    } else {
      const Number number = any_number();
      text = subject(number, 2) + ' ' + predicate(number) + (happens(10) ? "!" : ".");
    }
    if ('a' <= text[0] && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
    return text;
  }

  RandomStream random_;
  std::string name_;
};

CorpusPtr grammar_corpus(Split split, const BuiltInOptions& options) {
  const int64_t N = split == Split::train ? options.train_size : options.test_size;
  check(N >= 1, "a split of the built-in grammar needs at least 1 document, got {}", N);
  const TokenizerPtr bytes = bytes_tokenizer();
  CorpusWriter writer({.name = "grammar",
                       .source = "built in",
                       .tokenizer = "bytes",
                       .vocabulary = bytes->size(),
                       .end_of_text = bytes->end_of_text()});
  for (int64_t i = 0; i < N; ++i) {
    std::vector<int32_t> document = bytes->encode(grammar_document(split, i, options.seed));
    document.push_back(bytes->end_of_text());
    writer.add(document);
  }
  return writer.finish();
}

}  // namespace

std::string detail::grammar_document(Split split, int64_t i, uint64_t seed) {
  const uint64_t first = split == Split::train ? 0 : uint64_t{1} << 40;
  return Speaker(seed, first + static_cast<uint64_t>(i)).document();
}

Corpora grammar_corpora(const BuiltInOptions& options) {
  return {grammar_corpus(Split::train, options), grammar_corpus(Split::test, options)};
}

}  // namespace accrue
