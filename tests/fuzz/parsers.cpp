#include "tests/fuzz/parsers.h"

#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/checkpoint.h"
#include "data/gguf.h"
#include "data/idx.h"
#include "data/lines.h"
#include "data/png.h"
#include "data/safetensors.h"
#include "data/table.h"
#include "fonts/postscript.h"
#include "images/cifar.h"
#include "images/image_columns.h"
#include "images/image_file.h"
#include "images/image_folder.h"
#include "images/run_lengths.h"
#include "kernels/parallel.h"
#include "onnx/reader/file.h"
#include "text/corpus.h"
#include "text/documents.h"
#include "text/gguf_model.h"
#include "text/gguf_tokenizer.h"
#include "text/tokenizer_file.h"

namespace accrue::fuzz {
namespace {

namespace fs = std::filesystem;

// A file in memory that has a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const std::byte> content)
      : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    const auto size = static_cast<ssize_t>(content.size());
    check(descriptor_ >= 0 && ::write(descriptor_, content.data(), content.size()) == size,
          "no file in memory could be made");
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::filesystem::path path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  int descriptor_;
};

// A gray image of 4 x 3 pixels.
std::string small_image() { return encode_png(GrayImage(3, 4, 7)); }

// Reads the file as the mask of a valid image.
void look_at_mask(std::span<const std::byte> file) {
  static const std::string image = small_image();
  const MemoryFile good(std::as_bytes(std::span(image))), mask(file);
  const ImageFolder folder{.directory = good.path().parent_path(),
                           .answer = ImageFolder::Answer::masks,
                           .samples = {{.image = good.path(), .mask = mask.path()}}};
  const ImageSurvey found = survey(folder, SurveyDepth::pixels);
  describe(folder, found);
  if (!found.bad.empty()) fail("{}", found.bad.front().describe());
  check_has_classes(folder, found);
}

// A folder, in memory if the machine allows it.
class Folder {
 public:
  Folder() {
    std::string name = (fs::exists("/dev/shm") ? "/dev/shm" : "/tmp") + std::string("/fuzz-XXXXXX");
    check(::mkdtemp(name.data()) != nullptr, "no temporary directory");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const fs::path& path() const { return path_; }
  // Adds an image, a folder, a link or a file, if its path allows it. Links do not lead out of the
  // folder, but may lead to the folder itself.
  void add(char kind, std::string_view name, std::string_view content) const {
    const fs::path path = inside(name);
    std::error_code ignored;
    fs::create_directories(kind == 'd' ? path : path.parent_path(), ignored);
    if (kind == 'l') fs::create_symlink(inside(content), path, ignored);
    if (kind == 'i') std::ofstream(path, std::ios::binary) << small_image();
    if (kind == 'f') {
      std::string text(content);
      std::ranges::replace(text, '|', '\n');
      std::ofstream(path, std::ios::binary) << text;
    }
  }

 private:
  fs::path inside(std::string_view name) const {
    fs::path path = path_;
    for (const fs::path& part : fs::path(name.substr(0, name.find('\0'))).relative_path())
      if (part != "..") path /= part.string().substr(0, 40);
    return path;
  }

  fs::path path_;
};

// Each line is an entry of a folder: "i train/cat/a.png", "d train/dog", "l a.png b/c.png", or "f
// train.csv file,label|a.png,cat".
void look_at_folder(std::span<const std::byte> file) {
  set_thread_count(1);  // allocations are counted on one thread
  const Folder folder;
  std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  for (int entries = 0; entries < 24 && !text.empty(); ++entries) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.size() < 3) continue;
    const size_t blank = std::min(line.find(' ', 2), line.size());
    folder.add(line[0], line.substr(2, blank - 2), line.substr(std::min(blank + 1, line.size())));
  }
  const std::optional<ImageFolder> found = find_images(folder.path(), {});
  if (!found) refuse_layout(folder.path());
  const ImageSurvey seen = survey(*found, SurveyDepth::pixels);
  describe(*found, seen);
  notes_of(*found, seen);
}

// Reads the file as potrace's output for two bitmaps.
void look_at_outlines(std::span<const std::byte> file) {
  const std::vector<fonts::BitmapSize> sizes{{8, 4}, {16, 16}};
  fonts::read_postscript({reinterpret_cast<const char*>(file.data()), file.size()}, sizes);
}

// The first line is corpus.json. The rest are the ends of the documents of 32 tokens.
void look_at_corpus(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  const size_t line = std::min(text.find('\n'), text.size());
  const Folder folder;
  const auto write = [&](const char* name, std::string_view content) {
    std::ofstream(folder.path() / name, std::ios::binary) << content;
  };
  const std::string_view ends = text.substr(std::min(line + 1, text.size()));
  write("corpus.json", text.substr(0, line));
  write("documents.bin", ends);
  write("sections.bin", std::string(ends.size(), '\1'));
  write("tokens.bin", std::string(64, '\0'));
  write("learned.bin", "\1\2\3\4");
  const CorpusPtr corpus = open_corpus(folder.path());
  std::vector<int32_t> tokens(static_cast<size_t>(corpus->size()));
  corpus->read(tokens, 0);
  for (int64_t i = 0; i < corpus->size(); ++i) corpus->is_learned(i);
}

void look_at_json_lines(std::span<const std::byte> file) {
  const MemoryFile memory(file);
  std::map<std::string, int64_t> unused;
  Lines lines(memory.path());
  for (std::string line; lines.next(line);) {
    if (line.empty()) continue;
    for (const ChatForm form : {ChatForm::own, ChatForm::chatml, ChatForm::llama3})
      document_of_json(line, form, lines.here(), unused);
  }
}

// Reads all metadata of a file, and the elements of its tensors.
void look_at_gguf(std::span<const std::byte> content) {
  const MemoryFile memory(content);
  const GgufFile file(memory.path());
  const auto try_each = [](auto... reads) {
    const auto try_one = [](const auto& read) {
      try {
        read();
      } catch (const Error&) {  // it has another type
      }
    };
    (try_one(reads), ...);
  };
  for (const std::string_view key : file.keys())
    try_each([&] { file.integer(key); }, [&] { file.number(key); }, [&] { file.flag(key); },
             [&] { file.text(key); }, [&] { file.integers(key); }, [&] { file.numbers(key); },
             [&] { file.texts(key); });
  for (const GgufTensor& tensor : file.tensors())
    dispatch_blocks(tensor.type, [&]<class Block>() {
      std::array<float, elements_in<Block>> elements;
      const auto* const blocks = reinterpret_cast<const Block*>(tensor.elements.data());
      for (size_t i = 0; i < tensor.elements.size() / sizeof(Block); ++i)
        widen(blocks[i], elements.data());
    });
  if (!file.text("general.architecture")) return;
  if (file.text("tokenizer.ggml.model") == "llama") {
    const TokenizerPtr tokenizer = read_gguf_tokenizer(file).tokenizer;
    tokenizer->decode(tokenizer->encode("he's 12<|end|> \xc3\xa9\xff"));
    return;
  }
  read_gguf_config(file);
  for (const char* const part : {"self_attn.q_proj.weight", "mlp.up_proj.weight"})
    find_gguf_parameter(file, fmt::format("model.layers.0.{}", part),
                        part[0] == 's' ? Shape{8, 32} : Shape{4, 32});
  read_gguf_tokenizer(file).tokenizer->encode("he's 12<|end|>");
}

// Reads a file, and the elements of its tensors.
void look_at_onnx(std::span<const std::byte> content) {
  const MemoryFile memory(content);
  const auto file = OnnxFile::read(memory.path());
  for (const auto& [name, tensor] : file->initializers)
    if (is_floating(tensor.type)) tensor.numbers();
    else if (tensor.type != OnnxType::string) tensor.integers();
}

size_t plain(std::span<const std::byte> file) { return file.size(); }

bool is_gzip(std::span<const std::byte> file) {
  return file.size() >= 2 && file[0] == std::byte{0x1f} && file[1] == std::byte{0x8b};
}

}  // namespace

const std::vector<Parser>& parsers() {
  static const std::vector<Parser> all{
      {"safetensors", [](auto file) { read_safetensors(MemoryFile(file).path()); }, plain},
      {"npy", [](auto file) { read_npy(MemoryFile(file).path()); }, plain},
      // A digit and a comma become a value of four bytes, in a vector that grows by doubling.
      {"csv", [](auto file) { read_csv(MemoryFile(file).path()); },
       [](auto file) { return file.size() * (is_gzip(file) ? 1032 : 1) * 8; }},
      {"checkpoint", [](auto file) { read_checkpoint_record(MemoryFile(file).path()); }, plain},
      {"idx",
       [](auto file) {
         const MemoryFile memory(file);
         try {
           read_idx_images(memory.path());
         } catch (const Error&) {
           read_idx_labels(memory.path());
         }
       },
       // data/byte_stream.cpp explains 1032. A label takes four bytes once it is read.
       [](auto file) { return file.size() * (is_gzip(file) ? 1032 : 1) * 4; }},
      // data/png.cpp explains 1032. A pixel of one bit becomes a byte.
      {"png",
       [](auto file) {
         const MemoryFile memory(file);
         try {
           read_mask(memory.path());
         } catch (const Error&) {  // of colours, say, which the others take
         }
         read_png(memory.path());
         read_image(memory.path());
       },
       // An index into a palette becomes three colors.
       [](auto file) { return file.size() * 1032 * 8 * 3; }},
      // images/jpeg.cpp explains 1366.
      {"jpeg", [](auto file) { read_image(MemoryFile(file).path()); },
       [](auto file) { return file.size() * 1366; }},
      // A line of a few bytes becomes three strings and a number.
      {"run_lengths",
       [](auto file) {
         std::vector<uint8_t> plane(48);
         for (const RunLengths& line : read_run_lengths(MemoryFile(file).path()))
           draw_runs(plane, {6, 8}, line.runs);
       },
       [](auto file) { return file.size() * sizeof(RunLengths); }},
      {"labels", [](auto file) { read_labels(MemoryFile(file).path()); },
       [](auto file) { return file.size() * sizeof(ImageLabel); }},
      {"masks", look_at_mask, [](auto file) { return file.size() * 1032 * 8 * 3; }},
      // A name of a few bytes becomes several paths.
      {"folders", look_at_folder, [](auto file) { return file.size() * 1024; }},
      {"cifar", [](auto file) { read_cifar10_batch(MemoryFile(file).path()); },
       [](auto file) { return file.size() * 2; }},
      // A line of 12 bytes becomes a piece of a curve, in a vector that grows by doubling.
      {"postscript", look_at_outlines, [](auto file) { return file.size() * 16; }},
      {"corpora", look_at_corpus, plain},
      // A value of two bytes becomes an element of 16, in a vector that grows by doubling. A string
      // of 8 bytes becomes several strings of JSON.
      {"gguf", look_at_gguf, [](auto file) { return file.size() * 64; }},
      // A name of a byte becomes several strings, in a node. An element of a byte becomes one of 8.
      {"onnx", look_at_onnx, [](auto file) { return file.size() * 256; }},
      {"json_lines", look_at_json_lines,
       [](auto file) { return file.size() * (is_gzip(file) ? 1032 : 1) * 16; }},
      // A name of a few bytes becomes a string, beside another one that is left out.
      {"tokenizer",
       [](auto file) {
         const TokenizerPtr tokenizer = read_tokenizer(MemoryFile(file).path());
         tokenizer->decode(
             tokenizer->encode("he's aaa 12\n  <|end|> \xc3\xa9\xff"
                               "e\xcc\x81"));
       },
       [](auto file) { return file.size() * 64; }}};
  return all;
}

Bytes with_right_checksum(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  auto record = nlohmann::json::parse(text, nullptr, false);
  if (record.is_object()) try {
      record.erase("crc32");
      const std::string content = record.dump();
      const uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size());
      record["crc32"] = fmt::format("{:08x}", crc);
      const std::string signed_text = record.dump();
      const auto bytes = std::as_bytes(std::span(signed_text));
      return {bytes.begin(), bytes.end()};
    } catch (const nlohmann::json::exception&) {  // not UTF-8
    }
  return {file.begin(), file.end()};
}

Bytes with_right_crcs(std::span<const std::byte> file) {
  Bytes result(file.begin(), file.end());
  auto* const bytes = reinterpret_cast<Bytef*>(result.data());
  const auto word = [&](size_t at) {
    return uint32_t{bytes[at]} << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 | bytes[at + 3];
  };
  for (size_t at = 8; at + 12 <= result.size();) {  // length, name, content, checksum
    const size_t length = word(at);
    if (length > result.size() - at - 12) break;
    const uLong crc = crc32_z(0, bytes + at + 4, length + 4);
    for (size_t b = 0; b < 4; ++b)
      bytes[at + 8 + length + b] = static_cast<Bytef>(crc >> (24 - 8 * b));
    at += length + 12;
  }
  return result;
}

Bytes gzip(std::span<const std::byte> content) {
  z_stream z{};
  check(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib");
  Bytes result(deflateBound(&z, content.size()) + 32);
  z.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(content.data()));
  z.avail_in = static_cast<uInt>(content.size());
  z.next_out = reinterpret_cast<Bytef*>(result.data());
  z.avail_out = static_cast<uInt>(result.size());
  check(deflate(&z, Z_FINISH) == Z_STREAM_END, "zlib");
  result.resize(z.total_out);
  deflateEnd(&z);
  return result;
}

}  // namespace accrue::fuzz
