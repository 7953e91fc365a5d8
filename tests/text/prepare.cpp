// Texts, and JSON lines of texts, as corpora.

#include "text/prepare.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <set>

#include "data/samples.h"
#include "kernels/judged.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "text/read_texts.h"
#include "text/rows.h"
#include "text/text_files.h"

namespace accrue::test {
namespace {

namespace fs = std::filesystem;

constexpr int32_t end_of_bytes = 256;

// The documents of a corpus as text, with the end of a text as $. `learned` has ~ for bytes that
// are not learned.
struct Prepared {
  std::vector<std::string> documents, learned, left_alone;
  int64_t bytes = 0, count = 0;
};

Prepared prepared(const fs::path& folder, const std::vector<std::string>& texts,
                  ChatForm chat = ChatForm::chatml) {
  const std::string out = (folder / "out").string();
  fs::remove_all(out);
  const PreparedText made = prepare_text({.texts = texts, .chat = chat, .out = out});
  Prepared result{.left_alone = made.left_alone, .bytes = made.bytes, .count = made.learned};
  int64_t begin = 0;
  for (const uint64_t document_end : made.corpus->documents().ends) {
    std::vector<int32_t> tokens(document_end - uint64_t(begin));
    made.corpus->read(tokens, begin);
    result.documents.emplace_back();
    result.learned.emplace_back();
    for (const int32_t token : tokens) {
      const char c = token == end_of_bytes ? '$' : static_cast<char>(token);
      result.documents.back() += c;
      result.learned.back() += made.corpus->is_learned(begin++) ? c : '~';
    }
  }
  fs::remove_all(out);
  return result;
}

std::string hidden(const std::string& text) { return std::string(text.size(), '~'); }

using Strings = std::vector<std::string>;

}  // namespace

TEST_CASE("files and folders of texts become documents in natural order", "[text]") {
  const TemporaryDirectory folder;
  folder.write("b/10.txt", "ten");
  folder.write("b/9.txt", "nine\r\n");
  folder.write("b/c/deep.md", "\xef\xbb\xbf# deep");
  folder.write("b/picture.png", "x");
  folder.write("b/.hidden.txt", "x");
  folder.write("b/empty.txt", "");
  folder.write("b/old/corpus.json", "{}");
  folder.write("b/old/merges.txt", "x");
  folder.write("b/z.jsonl",
               "{\"text\": \"one\"}\n\n{\"text\": \"\"}\n{\"text\": \"two\", \"id\": 3}");
  folder.write("a.anything", "first");
  fs::create_directory_symlink(folder.path() / "b", folder.path() / "b/again");
  const std::string b = (folder.path() / "b").string(), a = (folder.path() / "a.anything").string();
  fs::remove(folder.path() / "b/empty.txt");
  const Prepared made = prepared(folder.path(), {a, b});
  REQUIRE(made.documents == Strings{"first$", "nine\r\n$", "ten$", "# deep$", "one$", "two$"});
  REQUIRE(made.learned == made.documents);
  REQUIRE(made.bytes == 5 + 6 + 3 + 6 + 3 + 3);
  REQUIRE(made.count == made.bytes + 6);
  REQUIRE(
      made.left_alone ==
      Strings{"4 entries in folders, no text by their name: .hidden.txt, again, old, picture.png",
              fmt::format("1 document without a text to learn: '{}/z.jsonl', line 3", b),
              "values in JSON by the names id (1)"});

  REQUIRE_ERROR(prepared(folder.path(), {b + "/old"}), "old' is a corpus already");
  REQUIRE_ERROR(prepared(folder.path(), {folder.write("pictures/a.png", "x").parent_path()}),
                "(1 entry in folders, no text by its name: a.png)");
  REQUIRE_ERROR(prepared(folder.path(), {b + "/none.txt"}), "cannot open");
  REQUIRE_ERROR(prepared(folder.path(), {folder
                                             .write("u.txt",
                                                    "\xff\xfe"
                                                    "a")
                                             .string()}),
                "u.txt' is UTF-16: expected UTF-8");
  const std::string nothing = folder.write("n.jsonl", "{\"text\": \"\"}").string();
  REQUIRE_ERROR(prepared(folder.path(), {nothing}), "there is nothing to learn in");
  REQUIRE(!fs::exists(folder.path() / "out"));
  REQUIRE_ERROR(prepare_text({.texts = {a}, .tokenizer = "x", .out = "y"}), "'x'");
}

TEST_CASE("what is no text is refused by name, and left alone in folders", "[text]") {
  const TemporaryDirectory folder;
  const auto refused = [&](const std::string& name, const std::string& content,
                           const std::string& why) {
    REQUIRE_ERROR(find_text_files({folder.write(name, content).string()}), why);
  };
  const std::string program(
      "\x7f"
      "ELF\2\1\1\0\0text",
      13);
  refused("program.txt", program, "program.txt' is no text: 2 of its first 13 bytes are 0");
  refused("noise", "\1\2\3\4 and text", "4 of its first 13 bytes are control characters");
  refused("x.parquet", "PAR1 and more", "read_parquet('x.parquet').to_json('x.jsonl'");
  refused("x.pdf", "%PDF-1.7\n", "is a PDF");
  refused("x.csv", "a,b\n1,2\n", "csv.DictReader(open('x.csv', newline=''))]\" > x.jsonl`");
  // Files in folders, and characters that texts may hold: terminal escapes, form feeds, Latin-1,
  // and a stray byte.
  folder.write("f/program.txt", program);
  folder.write("f/x.csv", "a,b");
  folder.write("f/log.txt", "\x1b[31mred\x1b[0m\f\b\r\n caf\xe9");
  folder.write("f/stray.txt", std::string(200, 'x') + "\1");
  const TextFiles found = find_text_files({(folder.path() / "f").string()});
  REQUIRE(found.files.size() == 2);
  REQUIRE(found.left_alone == Strings{"1 entry in folders, no text by its name: x.csv",
                                      "1 entry in folders, no text by its bytes: program.txt"});
}

TEST_CASE("bytes that are not UTF-8 are counted, and UTF-16 is refused", "[text]") {
  const TemporaryDirectory folder;
  const auto warnings = [&](const std::string& text) {
    const fs::path out = folder.path() / "out";
    fs::remove_all(out);
    return prepare_text({.texts = {folder.write("t.txt", text).string()}, .out = out.string()})
        .warnings;
  };
  REQUIRE(warnings("caf\xc3\xa9").empty());
  for (const auto& [text, what] :
       {std::pair("caf\xe9, d\xe9j\xe0 vu", "3 of its 13 bytes, of which the first is number 3,"),
        {"a\xe9", "1 of its 2 bytes, of which the first is number 1,"},
        {"\xe9\xe9\xe9", "3 of its 3 bytes, of which the first is number 0,"}}) {
    REQUIRE(warnings(text).size() == 1);
    REQUIRE_THAT(warnings(text)[0], ContainsSubstring(what));
  }
  // A character that lies across two chunks of the file is read as one.
  REQUIRE(warnings(std::string((1 << 20) - 1, 'a') + "\xc3\xa9").empty());
  REQUIRE_ERROR(warnings(std::string("h\0i\0", 4)), "`iconv -f UTF-16LE -t UTF-8 't.txt'");
  REQUIRE_ERROR(warnings(std::string("\0h\0i", 4)), "`iconv -f UTF-16BE -t UTF-8 't.txt'");
  REQUIRE_ERROR(prepared(folder.path(), {folder.write("t.jsonl", "{\"text\": \"\xe9\"}").string()}),
                "t.jsonl', line 1 is not UTF-8 at its byte 10: expected UTF-8, which `iconv");
}

TEST_CASE("control tokens that texts spell are counted, or are letters", "[text]") {
  const TemporaryDirectory folder;
  const std::string tokenizer = (folder.path() / "tokenizer").string();
  prepare_text({.texts = {folder.write("t.txt", "some text").string()},
                .train_tokenizer = 258,
                .out = tokenizer});
  const std::string lines = folder
                                .write("x.jsonl",
                                       R"({"text": "a<|endoftext|>b"}
{"prompt": "<|endoftext|>", "completion": "<|endoftext|>"}
{"text": "c"})")
                                .string();
  const auto read = [&](ControlInTexts control) {
    const std::string out = (folder.path() / fmt::format("out{}", int(control))).string();
    return prepare_text({.texts = {lines}, .tokenizer = tokenizer, .control = control, .out = out});
  };
  const PreparedText made = read(ControlInTexts::tokens), kept = read(ControlInTexts::letters);
  REQUIRE(made.warnings.size() == 1);
  REQUIRE_THAT(made.warnings[0], ContainsSubstring("spell 3 control tokens") &&
                                     ContainsSubstring("<|endoftext|> (3)"));
  REQUIRE(kept.warnings.empty());
  REQUIRE(made.corpus->facts().control == ControlInTexts::tokens);
  REQUIRE(kept.corpus->facts().control == ControlInTexts::letters);
  const auto ends = [](const Corpus& corpus) {
    std::vector<int32_t> tokens(static_cast<size_t>(corpus.size()));
    corpus.read(tokens, 0);
    return std::ranges::count(tokens, corpus.facts().end_of_text);
  };
  REQUIRE(ends(*made.corpus) == 6);
  REQUIRE(ends(*kept.corpus) == 3);
  REQUIRE(kept.corpus->size() > made.corpus->size());
}

TEST_CASE("a long text is read in parts that a tokenizer does not see", "[text]") {
  const TemporaryDirectory folder;
  std::string text;
  for (int i = 0; text.size() < 2'500'000; ++i)
    text += i % 50 > 0 ? "word and\nword " : "1 .\n\n x";
  const std::string file = folder.write("long.txt", text).string();
  REQUIRE(prepared(folder.path(), {file}).documents == Strings{text + "$"});
  const gzFile packed = gzopen((file + ".gz").c_str(), "wb");
  gzwrite(packed, text.data(), static_cast<unsigned>(text.size()));
  gzclose(packed);
  REQUIRE(prepared(folder.path(), {file + ".gz"}).documents == Strings{text + "$"});
  std::string all;
  std::vector<size_t> sizes;
  read_texts({file}, {},
             {.add = [&](std::string_view part, bool, Letters) { all += part; },
              .end = [](bool) {},
              .add_beginning =
                  [&](std::string_view part) {
                    sizes.push_back(part.size());
                    const size_t taken = sizes.size() == 1 ? 0 : part.size() - 5;
                    all += part.substr(0, taken);
                    return taken;
                  }});
  REQUIRE(all == text);
  REQUIRE(sizes == std::vector<size_t>{1 << 20, 2 << 20});
  const std::string solid(2'200'000, 'x');
  REQUIRE(prepared(folder.path(), {folder.write("s.txt", solid).string()}).documents ==
          Strings{solid + "$"});
}

TEST_CASE("of prompts and chats only the answers are to be learned", "[text]") {
  const TemporaryDirectory folder;
  const std::string file =
      folder
          .write("x.jsonl",
                 "{\"prompt\": \"2+2=\", \"completion\": \"4\"}\n"
                 "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"},"
                 " {\"role\": \"user\", \"content\": \"Hi\"},"
                 " {\"role\": \"assistant\", \"content\": \" Yes?\\n\"},"
                 " {\"role\": \"user\", \"content\": \"\"},"
                 " {\"role\": \"assistant\", \"content\": \"Bye\"}], \"source\": \"me\"}\n"
                 "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}\n")
          .string();
  const Prepared chatml = prepared(folder.path(), {file});
  const std::string first =
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
      "<|im_start|>assistant\n";
  const std::string second = "\n<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n";
  REQUIRE(chatml.documents ==
          Strings{"2+2=4$", first + " Yes?\n<|im_end|>" + second + "Bye<|im_end|>\n"});
  REQUIRE(chatml.learned == Strings{"~~~~4$", hidden(first) + " Yes?\n<|im_end|>" + hidden(second) +
                                                  "Bye<|im_end|>~"});
  REQUIRE(chatml.left_alone[0].ends_with("x.jsonl', line 3"));
  const Prepared llama3 = prepared(folder.path(), {file}, ChatForm::llama3);
  const std::string head =
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
      "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
      "<|start_header_id|>assistant<|end_header_id|>\n\n";
  const std::string middle =
      "<|start_header_id|>user<|end_header_id|>\n\n<|eot_id|>"
      "<|start_header_id|>assistant<|end_header_id|>\n\n";
  REQUIRE(llama3.documents[1] == head + "Yes?<|eot_id|>" + middle + "Bye<|eot_id|>");
  REQUIRE(llama3.learned[1] == hidden(head) + "Yes?<|eot_id|>" + hidden(middle) + "Bye<|eot_id|>");

  // In rows, the label of a prompt's last token is the first token of the completion.
  const std::string pair =
      folder.write("p.jsonl", "{\"prompt\": \"ab\", \"completion\": \"cd\"}\n").string();
  const PreparedText made =
      prepare_text({.texts = {pair}, .out = (folder.path() / "pair").string()});
  const Dataset data = rows_of({made.corpus, made.corpus}, {6, DocumentRows::packed}).train;
  const Samples row = gather(data, 0, 1);
  const auto is = [&](const char* field, const std::vector<int32_t>& values) {
    return std::ranges::equal(row[field].span<int32_t>(), values);
  };
  REQUIRE(is("tokens", {'a', 'b', 'c', 'd', end_of_bytes, end_of_bytes}));
  REQUIRE(is("labels", {not_judged, 'c', 'd', end_of_bytes, not_judged, not_judged}));
  REQUIRE(is("positions", {0, 1, 2, 3, 0, 0}));
}

TEST_CASE("a corpus has the files of its tokenizer", "[text]") {
  const TemporaryDirectory folder;
  const std::string text = "the cat, the other cat and the third cat";
  PrepareTextOptions options{.texts = {folder.write("a.txt", text).string()},
                             .train_tokenizer = 270,
                             .out = (folder.path() / "learnt").string()};
  const auto is_right = [&](const Corpus& corpus) {
    std::vector<int32_t> tokens(static_cast<size_t>(corpus.size()));
    corpus.read(tokens, 0);
    const TokenizerPtr tokenizer = corpus.tokenizer();
    REQUIRE(tokenizer->size() == 270);
    REQUIRE(tokens.back() == tokenizer->end_of_text());
    tokens.pop_back();
    REQUIRE(tokens.size() < text.size() / 2);
    REQUIRE(tokenizer->encode(text) == tokens);
    REQUIRE(tokenizer->decode(tokens) == text);
  };
  is_right(*prepare_text(options).corpus);
  // The tokenizer may come from a file with another name, or from a directory. The corpus does not
  // need them later.
  const std::string json = read_file(folder.path() / "learnt/tokenizer.json");
  options.train_tokenizer = {};
  for (const std::string& path : {folder.write("t/own.json", json).string(), options.out}) {
    options.tokenizer = path;
    options.out = (folder.path() / "copy").string();
    fs::remove_all(options.out);
    prepare_text(options);
    fs::remove_all(folder.path() / "t");
    is_right(*open_corpus(options.out));
  }
}

TEST_CASE("lines of JSON that are no documents are refused by file and line", "[text]") {
  const TemporaryDirectory folder;
  for (const auto& [line, part] : std::vector<std::pair<std::string, std::string>>{
           {"{", "is not JSON"},
           {"[1]", "is [1]: expected an object with text"},
           {"[\n{\"text\": \"x\"}]", "line 3 begins a list: expected an object in each line"},
           {"{}", "has nothing: expected"},
           {"{\"prompt\": \"x\"}", "has prompt: expected"},
           {"{\"text\": \"x\", \"messages\": []}", "has messages, text: expected"},
           {"{\"text\": 3}", "text is 3, expected text"},
           {"{\"text\": \"a\", \"text\": \"b\"}", "'text' stands twice"},
           {"{\"prompt\": \"x\", \"completion\": [\"y\"]}", "completion is [\"y\"], expected text"},
           {"{\"messages\": \"hi\"}", "messages is \"hi\", expected a list"},
           {"{\"messages\": []}", "messages is [], expected a list"},
           {"{\"messages\": [1]}", "a message is 1, expected an object"},
           {"{\"messages\": [{\"from\": \"human\"}]}", "role is null, expected text"},
           {"{\"messages\": [{\"role\": \"human\", \"content\": \"x\"}]}",
            "role is 'human', expected system, user, assistant or tool"},
           {"{\"messages\": [{\"role\": \"user\", \"content\": null}]}", "content is null"},
           {"{\"text\": \"\xff\"}", "is not UTF-8 at its byte 10"}}) {
    const std::string file =
        folder.write("x.jsonl", "{\"text\": \"good\"}\r\n\n" + line + "\n").string();
    INFO(line);
    REQUIRE_ERROR(prepared(folder.path(), {file}), "x.jsonl', line 3");
    REQUIRE_ERROR(prepared(folder.path(), {file}), part);
    REQUIRE(!fs::exists(folder.path() / "out"));
  }
}

TEST_CASE("documents begin with their tokenizer's first token, and chats do not", "[text]") {
  const TemporaryDirectory folder;
  const std::string file =
      folder
          .write("x.jsonl",
                 "{\"text\": \"a\"}\n{\"prompt\": \"b\", \"completion\": \"c\"}\n"
                 "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]}\n")
          .string();
  // The tokens are a, b, c, <s>, and the tokens that end a text and mark messages. Other letters
  // have no token.
  const std::string tokenizer =
      folder
          .write("tokenizer.json",
                 R"({"added_tokens": [{"id": 5, "content": "<|im_start|>"},
                   {"id": 6, "content": "<|im_end|>"}], "pre_tokenizer": {"type": "ByteLevel",
                   "add_prefix_space": false}, "model": {"type": "BPE", "merges": [], "vocab":
                   {"a": 0, "b": 1, "c": 2, "<s>": 3, "<|endoftext|>": 4}},
                   "post_processor": {"type": "TemplateProcessing", "single": [
                     {"SpecialToken": {"id": "<s>", "type_id": 0}},
                     {"Sequence": {"id": "A", "type_id": 0}}],
                     "special_tokens": {"<s>": {"id": "<s>", "ids": [3], "tokens": ["<s>"]}}}})")
          .string();
  const PreparedText made = prepare_text(
      {.texts = {file}, .tokenizer = tokenizer, .out = (folder.path() / "out").string()});
  std::vector<int32_t> tokens(static_cast<size_t>(made.corpus->size()));
  made.corpus->read(tokens, 0);
  const std::vector<int32_t> texts{3, 0, 4, 3, 1, 2, 4};
  REQUIRE(std::vector(tokens.begin(), tokens.begin() + 7) == texts);
  REQUIRE(std::ranges::count(tokens, 3) == 2);
  REQUIRE(!made.corpus->is_learned(3));
  REQUIRE(made.corpus->is_learned(0));
}

}  // namespace accrue::test
