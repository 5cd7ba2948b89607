#include "common/spec/stop_expression.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/experiment_spec.h"

namespace rt {
namespace {

constexpr std::string_view kComparisons[] = {"<=", ">=", "==", "!=", "<", ">"};
constexpr char kExample[] = "for example: loss < 0.1 or training_iteration >= 100";

struct StopToken {
  enum class Kind { kEnd, kNumber, kName, kWord, kComparison, kOpen, kClose };
  Kind kind = Kind::kEnd;
  std::string text;
  double number = 0;
  size_t at = 0;  // Offset in the text.
  bool is_quoted = false;
};

absl::Status ProblemAt(size_t offset, const std::string& what, std::string_view hint = kExample) {
  const int column = static_cast<int>(offset) + 1;
  return WithPosition(Invalid("stop: column " + std::to_string(column) + ": " + what, hint),
                      {.file = "stop", .line = 0, .column = column});
}

bool BeginsName(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsOfName(char c) { return BeginsName(c) || IsDigit(c) || c == '.' || c == '/'; }

// What people write who think of another language.
std::string_view HintFor(std::string_view rest) {
  if (rest.starts_with("&&")) return "write and";
  if (rest.starts_with("||")) return "write or";
  if (rest.starts_with("!")) return "write not";
  if (rest.starts_with("=")) return "write == to compare";
  if (rest.starts_with("-")) return "quote a name that has a hyphen: 'val-loss' < 0.1";
  return kExample;
}

class StopTokens {
 public:
  explicit StopTokens(std::string_view text) : text_(text) {}

  absl::StatusOr<StopToken> Next() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t'))
      ++at_;
    const std::string_view rest = text_.substr(at_);
    if (rest.empty()) return StopToken{.at = at_};
    const char c = rest.front();
    if (c == '(' || c == ')')
      return Take(c == '(' ? StopToken::Kind::kOpen : StopToken::Kind::kClose, 1);
    for (std::string_view one : kComparisons)
      if (rest.starts_with(one)) return Take(StopToken::Kind::kComparison, one.size());
    if (c == '\'' || c == '"' || c == '`') return TakeQuoted(c);
    if (BeginsName(c)) return TakeName(rest);
    const bool is_signed = (c == '-' || c == '+') && rest.size() > 1;
    const size_t first = is_signed ? 1 : 0;
    if (IsDigit(rest[first]) || (rest[first] == '.' && rest.size() > first + 1))
      return TakeNumber(rest, c == '+' ? 1 : 0);
    return ProblemAt(at_, "'" + Excerpt(rest) + "' is not understood", HintFor(rest));
  }

 private:
  StopToken Take(StopToken::Kind kind, size_t length) {
    StopToken token{.kind = kind, .text = std::string(text_.substr(at_, length)), .at = at_};
    at_ += length;
    return token;
  }
  absl::StatusOr<StopToken> TakeQuoted(char quote) {
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return ProblemAt(at_, "the quote is not closed");
    if (end == at_ + 1) return ProblemAt(at_, "the name is empty");
    StopToken token = Take(StopToken::Kind::kName, end + 1 - at_);
    token.text = token.text.substr(1, token.text.size() - 2);
    token.is_quoted = true;
    return token;
  }
  StopToken TakeName(std::string_view rest) {
    size_t length = 1;
    while (length < rest.size() && IsOfName(rest[length])) ++length;
    const std::string_view name = rest.substr(0, length);
    const bool is_word = name == "and" || name == "or" || name == "not";
    return Take(is_word ? StopToken::Kind::kWord : StopToken::Kind::kName, length);
  }
  absl::StatusOr<StopToken> TakeNumber(std::string_view rest, size_t skipped) {
    double value = 0;
    const char* end = rest.data() + rest.size();
    const auto [behind, error] = std::from_chars(rest.data() + skipped, end, value);
    const bool is_whole = error == std::errc() && (behind == end || !IsOfName(*behind));
    if (!is_whole) return ProblemAt(at_, "'" + Excerpt(rest) + "' does not begin with a number");
    StopToken token = Take(StopToken::Kind::kNumber, static_cast<size_t>(behind - rest.data()));
    token.number = value;
    return token;
  }

  std::string_view text_;
  size_t at_ = 0;
};

// By recursive descent, one function for each level of precedence.
class StopParser {
 public:
  explicit StopParser(std::string_view text) : tokens_(text) {}

  absl::StatusOr<Json> Parse() {
    RT_RETURN_IF_ERROR(Advance());
    RT_ASSIGN_OR_RETURN(Json tree, Joined("or", 0));
    if (now_.kind != StopToken::Kind::kEnd) return Unexpected("and, or, or the end");
    return tree;
  }

 private:
  using Kind = StopToken::Kind;

  absl::Status Advance() {
    RT_ASSIGN_OR_RETURN(now_, tokens_.Next());
    return absl::OkStatus();
  }
  bool IsWord(std::string_view word) const { return now_.kind == Kind::kWord && now_.text == word; }
  absl::Status Unexpected(const std::string& wanted) const {
    const bool is_end = now_.kind == Kind::kEnd;
    std::string_view hint = kExample;
    if (now_.text == "AND" || now_.text == "OR" || now_.text == "NOT")
      hint = "and, or and not are written in small letters";
    return ProblemAt(
        now_.at,
        "expected " + wanted +
            (is_end ? ", and the expression ends" : ", not '" + Excerpt(now_.text) + "'"),
        hint);
  }
  absl::StatusOr<Json> Joined(std::string_view word, int depth) {
    const bool is_or = word == "or";
    RT_ASSIGN_OR_RETURN(Json first, is_or ? Joined("and", depth) : Negated(depth));
    if (!IsWord(word)) return first;
    Json all = Json::MakeArray();
    all.Append(std::move(first));
    while (IsWord(word)) {
      RT_RETURN_IF_ERROR(Advance());
      RT_ASSIGN_OR_RETURN(Json next, is_or ? Joined("and", depth) : Negated(depth));
      all.Append(std::move(next));
    }
    return Json::MakeObject({{std::string(word), std::move(all)}});
  }
  absl::StatusOr<Json> Negated(int depth) {
    if (depth > limits::kStopExpressionDepthMax)
      return ProblemAt(now_.at, "nested deeper than " +
                                    std::to_string(limits::kStopExpressionDepthMax) + " levels");
    if (IsWord("not")) {
      RT_RETURN_IF_ERROR(Advance());
      RT_ASSIGN_OR_RETURN(Json inner, Negated(depth + 1));
      return Json::MakeObject({{"not", std::move(inner)}});
    }
    if (now_.kind != Kind::kOpen) return Comparison();
    const size_t opened = now_.at;
    RT_RETURN_IF_ERROR(Advance());
    RT_ASSIGN_OR_RETURN(Json inner, Joined("or", depth + 1));
    if (now_.kind == Kind::kEnd) return ProblemAt(opened, "this ( is not closed");
    if (now_.kind != Kind::kClose) return Unexpected("and, or, or )");
    RT_RETURN_IF_ERROR(Advance());
    return inner;
  }
  absl::StatusOr<Json> Comparison() {
    const StopToken begin = now_;
    RT_ASSIGN_OR_RETURN(Json left, Operand());
    if (now_.kind != Kind::kComparison) return Unexpected("a comparison such as <");
    const std::string comparison = now_.text;
    RT_RETURN_IF_ERROR(Advance());
    RT_ASSIGN_OR_RETURN(Json right, Operand());
    if (now_.kind == Kind::kComparison)
      return ProblemAt(now_.at, "a comparison has two sides", "write 0 < loss and loss < 1");
    if (!left.is_string() && !right.is_string())
      return ProblemAt(begin.at, "compares two numbers", "name a value that trials report");
    Json sides = Json::MakeArray();
    sides.Append(std::move(left));
    sides.Append(std::move(right));
    return Json::MakeObject({{comparison, std::move(sides)}});
  }
  absl::StatusOr<Json> Operand() {
    if (now_.kind != Kind::kNumber && now_.kind != Kind::kName)
      return Unexpected("a number or the name of a reported value");
    Json operand = now_.kind == Kind::kNumber ? Json(now_.number) : Json(now_.text);
    RT_RETURN_IF_ERROR(Advance());
    return operand;
  }

  StopTokens tokens_;
  StopToken now_;
};

std::optional<double> SideOf(const Json& side, const RowView& row) {
  if (!side.is_string()) return side.AsDouble();
  return RowValue(row, side.AsString());
}

bool Holds(std::string_view comparison, double a, double b) {
  if (comparison == "<") return a < b;
  if (comparison == "<=") return a <= b;
  if (comparison == ">") return a > b;
  if (comparison == ">=") return a >= b;
  if (comparison == "==") return a == b;
  return a != b;
}

// nullopt: unknown.
std::optional<bool> ValueOf(const Json& tree, const RowView& row) {
  const auto& [word, inner] = tree.object().front();
  if (word == "not") {
    const std::optional<bool> value = ValueOf(inner, row);
    return value ? std::optional<bool>(!*value) : std::nullopt;
  }
  if (word == "or" || word == "and") {
    const bool decisive = word == "or";
    bool is_unknown = false;
    for (const Json& one : inner.array()) {
      const std::optional<bool> value = ValueOf(one, row);
      if (value == decisive) return decisive;
      is_unknown |= !value.has_value();
    }
    return is_unknown ? std::nullopt : std::optional<bool>(!decisive);
  }
  const std::optional<double> a = SideOf(inner.array()[0], row), b = SideOf(inner.array()[1], row);
  if (!a || !b) return std::nullopt;
  return Holds(word, *a, *b);
}

void CollectNames(const Json& tree, std::set<std::string>& names) {
  const auto& [word, inner] = tree.object().front();
  if (word == "not") return CollectNames(inner, names);
  const bool is_joined = word == "or" || word == "and";
  for (const Json& one : inner.array())
    if (is_joined) CollectNames(one, names);
    else if (one.is_string()) names.insert(one.AsString());
}

}  // namespace

bool StopExpression::IsMet(const RowView& row) const {
  return is_given() && ValueOf(tree, row) == true;
}

std::vector<std::string> StopExpression::Names() const {
  std::set<std::string> names;
  if (is_given()) CollectNames(tree, names);
  return {names.begin(), names.end()};
}

absl::StatusOr<StopExpression> ParseStopExpression(std::string_view text) {
  if (text.size() > limits::kStopExpressionBytesMax)
    return ProblemAt(0,
                     "longer than " + std::to_string(limits::kStopExpressionBytesMax) + " bytes");
  RT_ASSIGN_OR_RETURN(Json tree, StopParser(text).Parse());
  return StopExpression{std::string(text), std::move(tree)};
}

}  // namespace rt
