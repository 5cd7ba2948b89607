#include "common/yaml/yaml_json.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <sstream>

#include "common/base/limits.h"
#include "common/base/strings.h"
#include "common/yaml/unclosed.h"

namespace rt {
namespace {

// Values in one document, aliases expanded: far above any honest file of 1 MiB.
constexpr size_t kValuesMax = 200'000;

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

std::optional<Json> ParseInteger(std::string_view text) {
  bool negative = text.starts_with('-');
  std::string_view digits = text;
  if (negative || text.starts_with('+')) digits.remove_prefix(1);
  int base = 10;
  if (digits.starts_with("0x")) base = 16;
  if (digits.starts_with("0o")) base = 8;
  if (base != 10) digits.remove_prefix(2);
  if (digits.empty() || !std::isalnum(static_cast<unsigned char>(digits[0]))) return std::nullopt;
  int64_t value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (end != digits.data() + digits.size() || error != std::errc()) return std::nullopt;
  return Json(negative ? -value : value);
}

std::optional<Json> ParseFloat(std::string_view text) {
  std::string_view digits = text;
  if (text.starts_with('-') || text.starts_with('+')) digits.remove_prefix(1);
  double sign = text.starts_with('-') ? -1 : 1;
  if (IsOneOf(digits, {".inf", ".Inf", ".INF"}))
    return Json(sign * std::numeric_limits<double>::infinity());
  if (IsOneOf(text, {".nan", ".NaN", ".NAN"})) return Json(std::nan(""));
  if (digits.empty() || digits.find_first_not_of("0123456789.eE+-") != std::string_view::npos)
    return std::nullopt;
  if (digits[0] != '.' && !std::isdigit(static_cast<unsigned char>(digits[0])))
    return std::nullopt;
  double value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end != digits.data() + digits.size() || error != std::errc()) return std::nullopt;
  return Json(sign * value);
}

Json PlainScalar(const std::string& text) {
  if (IsOneOf(text, {"", "~", "null", "Null", "NULL"})) return Json();
  if (IsOneOf(text, {"true", "True", "TRUE"})) return Json(true);
  if (IsOneOf(text, {"false", "False", "FALSE"})) return Json(false);
  if (std::optional<Json> integer = ParseInteger(text)) return *integer;
  if (std::optional<Json> number = ParseFloat(text)) return *number;
  return Json(text);
}

size_t CountValues(const Json& json) {
  size_t count = 1;
  if (json.is_array())
    for (const Json& item : json.array()) count += CountValues(item);
  if (json.is_object())
    for (const auto& [key, value] : json.object()) count += CountValues(value);
  return count;
}

struct Refusal {
  YAML::Mark mark;
  std::string message;
};

// Builds the Json from yaml-cpp's events; refuses by throwing Refusal, caught in ParseYaml.
class Builder : public YAML::EventHandler {
 public:
  explicit Builder(YamlDocument& document) : document_(document) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    RequireValue(mark);
    Place(mark);
    Add(mark, Json(), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    auto found = anchors_.find(anchor);
    if (found == anchors_.end()) throw Refusal{mark, "an alias inside its own anchor"};
    RequireValue(mark);
    Place(mark);
    values_ += CountValues(found->second);
    Add(mark, Json(found->second), 0);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (tag != "?" && tag != "!" && !tag.empty()) RefuseTag(mark, tag);
    last_quoted_ = tag == "!" ? mark : YAML::Mark::null_mark();
    if (!stack_.empty() && stack_.back().value.is_object() && !stack_.back().has_key) {
      TakeKey(mark, value);
      return;
    }
    Place(mark);
    Json plain = tag == "!" ? Json(value) : PlainScalar(value);
    const bool has_base = value.find_first_of("xo") != std::string::npos;
    document_.places[PathOfNext()].is_decimal = !plain.is_int() || !has_base;
    document_.places[PathOfNext()].is_plain = tag != "!";
    Add(mark, std::move(plain), anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, Json::MakeArray());
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, Json::MakeObject());
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapEnd() override { Close(); }

  // Of the document's last scalar, if it is quoted or has a tag "!"; else null.
  const YAML::Mark& last_quoted() const { return last_quoted_; }

 private:
  struct Frame {
    Json value;
    std::string path;
    YAML::anchor_t anchor = 0;
    std::string key;
    bool has_key = false;
    YAML::Mark key_mark;
  };

  [[noreturn]] static void RefuseTag(const YAML::Mark& mark, const std::string& tag) {
    throw Refusal{mark, "tags are not supported: " + Excerpt(tag)};
  }
  void RequireValue(const YAML::Mark& mark) const {
    if (!stack_.empty() && stack_.back().value.is_object() && !stack_.back().has_key)
      throw Refusal{mark, "a key must be a text"};
  }
  void TakeKey(const YAML::Mark& mark, const std::string& key) {
    Frame& frame = stack_.back();
    if (frame.value.Find(key) != nullptr)
      throw Refusal{mark, "duplicate key '" + Excerpt(key) + "'"};
    frame.key = key;
    frame.has_key = true;
    frame.key_mark = mark;
  }
  std::string PathOfNext() const {
    if (stack_.empty()) return "";
    const Frame& frame = stack_.back();
    std::string last =
        frame.value.is_array() ? std::to_string(frame.value.array().size()) : frame.key;
    return frame.path.empty() ? last : frame.path + "/" + last;
  }
  void Place(const YAML::Mark& mark) {
    bool keyed = !stack_.empty() && stack_.back().value.is_object();
    const YAML::Mark& key = keyed ? stack_.back().key_mark : mark;
    const YAML::Mark& value = mark.line == key.line ? mark : key;
    document_.places[PathOfNext()] = {.key_line = key.line + 1,
                                      .key_column = key.column + 1,
                                      .value_line = value.line + 1,
                                      .value_column = value.column + 1};
  }
  void Add(const YAML::Mark& mark, Json value, YAML::anchor_t anchor) {
    if (++values_ > kValuesMax) throw Refusal{mark, "too many values"};
    if (anchor != 0) anchors_[anchor] = value;
    if (stack_.empty()) {
      document_.value = std::move(value);
      return;
    }
    Frame& frame = stack_.back();
    if (frame.value.is_array()) {
      frame.value.Append(std::move(value));
    } else {
      frame.value.object().emplace_back(std::move(frame.key), std::move(value));
      frame.has_key = false;
    }
  }
  void Open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Json empty) {
    if (tag != "?" && !tag.empty()) RefuseTag(mark, tag);
    RequireValue(mark);
    if (stack_.size() >= static_cast<size_t>(limits::kNestingMax))
      throw Refusal{mark, "nested too deeply"};
    Place(mark);
    Frame frame;
    frame.value = std::move(empty);
    frame.path = PathOfNext();
    frame.anchor = anchor;
    stack_.push_back(std::move(frame));
  }
  void Close() {
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    Add(YAML::Mark::null_mark(), std::move(frame.value), frame.anchor);
  }

  YamlDocument& document_;
  std::vector<Frame> stack_;
  std::map<YAML::anchor_t, Json> anchors_;
  size_t values_ = 0;
  YAML::Mark last_quoted_ = YAML::Mark::null_mark();
};

absl::Status Refused(const std::string& filename, const YAML::Mark& mark,
                     const std::string& message) {
  return WithPosition(Invalid(message),
                      {.file = filename, .line = mark.line + 1, .column = mark.column + 1});
}

absl::Status NotClosed(const std::string& filename, const Unclosed& open) {
  return WithPosition(Invalid(std::string("a ") + open.opener + " is not closed"),
                      {.file = filename, .line = open.line, .column = open.column});
}

// yaml-cpp takes the end of the text for the end of a quoted scalar, if a line ends there. `mark`:
// of the last scalar; it does not count a byte order mark.
std::optional<Unclosed> UnclosedAt(std::string_view text, const YAML::Mark& mark) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (mark.is_null()) return std::nullopt;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return FindUnclosedQuote(text, static_cast<size_t>(mark.pos));
}

// The first byte that no text in UTF-8 has, with its line and column (in characters).
absl::Status CheckText(std::string_view text, const std::string& filename) {
  size_t bad = text.find('\0');
  if (!IsValidUtf8(text)) {
    const std::string mended = ValidUtf8(text);
    const auto differs = std::mismatch(text.begin(), text.end(), mended.begin(), mended.end());
    const auto same = static_cast<size_t>(differs.first - text.begin());
    bad = std::min({bad, same, text.size() - 1});  // A cut U+FFFD differs after its end.
  }
  if (bad >= text.size()) return absl::OkStatus();
  const std::string_view before = text.substr(0, bad);
  const size_t newline = before.rfind('\n');
  const std::string_view line =
      newline == std::string_view::npos ? before : before.substr(newline + 1);
  const auto characters = std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  });
  const std::string hex = ToHex(text.substr(bad, 1));
  return WithPosition(
      Invalid("not a text in UTF-8: byte 0x" + hex,
              text[bad] == '\0' ? "" : "save the file as UTF-8: iconv -f latin1 -t utf-8 FILE"),
      {.file = filename,
       .line = static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1,
       .column = static_cast<int>(characters) + 1});
}

// One byte more than a document may have, at most.
absl::StatusOr<std::string> ReadStart(int fd, const std::string& filename) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return ErrnoStatus(errno, filename);
  if (!S_ISREG(info.st_mode))
    return Invalid(filename + ": not a regular file", "save the text to a file, and name that");
  std::string text(limits::kYamlBytesMax + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(fd, text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read " + filename);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  return text;
}

}  // namespace

absl::Status YamlDocument::At(const absl::Status& status, std::string_view path,
                              bool at_key) const {
  std::string where(path);
  auto found = places.find(where);
  while (found == places.end() && !where.empty()) {
    size_t slash = where.rfind('/');
    where = slash == std::string::npos ? "" : where.substr(0, slash);
    found = places.find(where);
  }
  Position position{.file = filename, .line = 1, .column = 1};
  if (found != places.end()) {
    position.line = at_key ? found->second.key_line : found->second.value_line;
    position.column = at_key ? found->second.key_column : found->second.value_column;
    const Position within = PositionOf(status);
    if (!at_key && found->second.is_plain && within.line == 0 && within.column > 0)
      position.column += within.column - 1;
  }
  return WithPosition(status, position);
}

absl::StatusOr<YamlDocument> ParseYaml(std::string_view text, const std::string& filename) {
  YamlDocument document;
  document.filename = filename;
  if (text.size() > limits::kYamlBytesMax) return Invalid(filename + ": larger than 1 MiB");
  RT_RETURN_IF_ERROR(CheckText(text, filename));
  Builder builder(document);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    if (const auto open = UnclosedAt(text, builder.last_quoted()))
      return NotClosed(filename, *open);
    YamlDocument second;
    Builder rest(second);
    if (parser.HandleNextDocument(rest)) return Invalid(filename + ": more than one document");
  } catch (const Refusal& refusal) {
    return Refused(filename, refusal.mark, refusal.message);
  } catch (const YAML::Exception& error) {
    const bool breaks_off = error.msg.find("flow not found") != std::string::npos ||
                            error.msg.find("EOF in scalar") != std::string::npos;
    if (const std::optional<Unclosed> open = breaks_off ? FindUnclosed(text) : std::nullopt)
      return NotClosed(filename, *open);
    return WithHint(Refused(filename, error.mark, error.msg),
                    "check the indentation, and quote texts that contain ': ' or begin with a "
                    "special character");
  }
  return document;
}

absl::StatusOr<YamlDocument> ParseYamlFile(const std::string& filename) {
  // A pipe without a writer would hold whoever opens it.
  const int fd = ::open(filename.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT)
    return WithPosition(Invalid(filename + ": no such file"), {.file = filename});
  if (fd < 0) return ErrnoStatus(errno, "open " + filename);
  absl::StatusOr<std::string> text = ReadStart(fd, filename);
  ::close(fd);
  if (!text.ok()) return text.status();
  RT_ASSIGN_OR_RETURN(YamlDocument document, ParseYaml(*text, filename));
  if (document.value.is_null()) return Invalid(filename + ": the file is empty");
  return document;
}

YamlKind KindOf(const YamlDocument& document) {
  if (document.value.Find("cluster_name") != nullptr) return YamlKind::kCluster;
  if (document.value.Find("experiment") != nullptr) return YamlKind::kExperiment;
  return YamlKind::kOther;
}

}  // namespace rt
