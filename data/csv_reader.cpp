#include "data/csv_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "data/byte_stream.h"
#include "data/words.h"

namespace accrue {
namespace {

void append_utf8(std::string& text, uint32_t c) {
  const auto add = [&](uint32_t byte) { text += static_cast<char>(byte); };
  if (c < 0x80) return add(c);
  if (c < 0x800) {
    add(0xc0 | c >> 6);
  } else if (c < 0x10000) {
    add(0xe0 | c >> 12);
    add(0x80 | (c >> 6 & 0x3f));
  } else {
    add(0xf0 | c >> 18);
    add(0x80 | (c >> 12 & 0x3f));
    add(0x80 | (c >> 6 & 0x3f));
  }
  add(0x80 | (c & 0x3f));
}

std::string utf8_of_utf16(std::string_view bytes, bool is_big_endian, const std::string& file) {
  check(bytes.size() % 2 == 0, "'{}' is UTF-16, but has an odd number of bytes: it was cut off",
        file);
  const auto unit = [&](size_t i) {
    const auto first = static_cast<unsigned char>(bytes[i]),
               second = static_cast<unsigned char>(bytes[i + 1]);
    return is_big_endian ? uint32_t{first} << 8 | second : uint32_t{second} << 8 | first;
  };
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 2) {
    uint32_t c = unit(i);
    if (0xd800 <= c && c < 0xdc00 && i + 3 < bytes.size()) {  // the first half of a pair
      i += 2;
      c = 0x10000 + ((c & 0x3ff) << 10) + (unit(i) & 0x3ff);
    }
    append_utf8(text, c);
  }
  return text;
}

// The file's text without a byte order mark. UTF-16 is converted to UTF-8.
std::string utf8_text_of(const std::filesystem::path& path) {
  const std::vector<std::byte> content = file_content(path);
  std::string_view bytes(reinterpret_cast<const char*>(content.data()), content.size());
  const std::string file = path.string();
  const bool has_two = bytes.size() >= 2;
  const auto utf16 = [&](size_t mark, bool is_big_endian) {
    return utf8_of_utf16(bytes.substr(mark), is_big_endian, file);
  };
  std::string text;
  if (bytes.starts_with("\xff\xfe")) text = utf16(2, false);
  else if (bytes.starts_with("\xfe\xff")) text = utf16(2, true);
  else if (has_two && bytes[0] != 0 && bytes[1] == 0) text = utf16(0, false);
  else if (has_two && bytes[0] == 0 && bytes[1] != 0) text = utf16(0, true);
  else text = bytes.substr(bytes.starts_with("\xef\xbb\xbf") ? 3 : 0);
  const size_t zero = text.find('\0');
  check(zero == std::string::npos,
        "'{}', line {}: there is a zero byte: expected text with commas (CSV)", file,
        std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(std::min(zero, text.size())),
                   '\n') +
            1);
  return text;
}

}  // namespace

CsvReader::CsvReader(std::filesystem::path path)
    : path_(std::move(path)), text_(utf8_text_of(path_)) {
  find_separator();
  check(read_row(), "'{}' has no line with text: expected one with the names of columns",
        path_.string());
  columns_ = row_;
}

std::optional<size_t> CsvReader::column(std::initializer_list<std::string_view> names) const {
  for (size_t c = 0; c < columns_.size(); ++c)
    if (std::ranges::find(names, letters_and_digits(columns_[c])) != names.end()) return c;
  return std::nullopt;
}

void CsvReader::take_first_row_for_data() {
  is_first_row_data_ = true;
  row_ = columns_;
  for (size_t c = 0; c < columns_.size(); ++c) columns_[c] = std::to_string(c + 1);
}

bool CsvReader::next() {
  if (std::exchange(is_first_row_data_, false)) return true;
  if (!read_row()) return false;
  if (row_.size() != columns_.size())
    fail("{}: it has {}, expected {} as in the first line: {}", here(),
         counted(static_cast<int64_t>(row_.size()), "field"), columns_.size(), some_of(columns_));
  return true;
}

std::string CsvReader::here() const {
  return fmt::format("'{}', line {}", path_.string(), row_line_);
}

// If the first line only names the separator, skips it.
void CsvReader::find_separator() {
  static constexpr std::array separators{',', ';', '\t', '|'};
  if (text_.size() > 5 && lower(text_.substr(0, 4)) == "sep=" && is_line_end(text_[5])) {
    separator_ = text_[4];
    at_ = 5;
    return pass_line_end();
  }
  std::array<int64_t, separators.size()> counts{};
  bool is_quoted = false;
  const size_t begin = std::min(text_.find_first_not_of("\r\n"), text_.size());
  for (size_t i = begin; i < text_.size() && (is_quoted || !is_line_end(text_[i])); ++i) {
    if (text_[i] == '"') is_quoted = !is_quoted;
    for (size_t s = 0; s < separators.size(); ++s)
      counts[s] += !is_quoted && text_[i] == separators[s];
  }
  separator_ = separators[static_cast<size_t>(std::ranges::max_element(counts) - counts.begin())];
}

bool CsvReader::read_row() {
  while (at_ < text_.size()) {
    row_.clear();
    row_line_ = line_;
    for (;;) {
      row_.push_back(read_field());
      if (at_line_end()) break;
      ++at_;  // the separator
    }
    pass_line_end();
    if (!std::ranges::all_of(row_, &std::string::empty)) return true;
  }
  return false;
}

std::string CsvReader::read_field() {
  pass_blanks();
  if (at_ < text_.size() && text_[at_] == '"') return read_quoted();
  const size_t begin = at_;
  while (!at_line_end() && text_[at_] != separator_) ++at_;
  size_t end = at_;
  while (end > begin && (text_[end - 1] == ' ' || text_[end - 1] == '\t')) --end;
  return text_.substr(begin, end - begin);
}

std::string CsvReader::read_quoted() {
  std::string field;
  const int64_t begin = line_;
  for (++at_;; ++at_) {
    check(at_ < text_.size(), "'{}', line {}: a quotation mark opens here and none closes",
          path_.string(), begin);
    if (text_[at_] == '"' && (++at_ == text_.size() || text_[at_] != '"')) break;
    line_ += text_[at_] == '\n' || (text_[at_] == '\r' && text_.compare(at_, 2, "\r\n") != 0);
    field += text_[at_];
  }
  pass_blanks();
  check(at_line_end() || text_[at_] == separator_,
        "'{}', line {}: text follows a closing quotation mark: expected '{}' or the end of "
        "the line",
        path_.string(), line_, separator_);
  return field;
}

void CsvReader::pass_blanks() {
  while (at_ < text_.size() && text_[at_] != separator_ &&
         (text_[at_] == ' ' || text_[at_] == '\t'))
    ++at_;
}

void CsvReader::pass_line_end() {
  if (at_ == text_.size()) return;
  at_ += text_.compare(at_, 2, "\r\n") == 0 ? 2 : 1;
  ++line_;
}

}  // namespace accrue
