#include "tests/scenario/print.h"

#include <cstdio>
#include <map>
#include <set>
#include <string_view>
#include <type_traits>

#include "common/base/strings.h"

namespace rt::scenario {
namespace {

template <class T>
std::string Text(const T& value);

std::string TextOf(const std::string& value) {
  if (!IsValidUtf8(value) || value.find('\0') != std::string::npos) {
    return "#" + ToHex(std::string_view(value).substr(0, 4));
  }
  const bool plain = !value.empty() && value.find(' ') == std::string::npos;
  return plain ? EscapeControl(value) : "'" + EscapeControl(value) + "'";
}
std::string TextOf(TrialId id) { return ToString(id); }
std::string TextOf(const Owner& owner) { return ToString(owner); }
std::string TextOf(const AttemptId& id) { return ToString(id); }
template <class Tag>
std::string TextOf(Id<Tag> id) {
  return std::to_string(id.value);
}
template <class T>
std::string TextOf(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) text += (text.empty() ? "" : " ") + Text(value);
  return "[" + text + "]";
}
template <class K, class V>
std::string TextOf(const std::map<K, V>& values) {
  std::string text;
  for (const auto& [key, value] : values) {
    text += (text.empty() ? "" : " ") + Text(key) + ":" + Text(value);
  }
  return "{" + text + "}";
}

// " name=value" for every field that is not zero. `seq`: the number of the record, from which the
// number of another record is counted back, so that no story changes with the records before it.
template <class T>
std::string Fields(const T& value, uint64_t seq = 0) {
  std::string text;
  ForEachField(value, [&](const char* name, const auto& field) {
    using Field = std::decay_t<decltype(field)>;
    if (field == Field{} && !std::is_same_v<Field, TrialId>) return;
    // They follow from the user's text, which a story shows.
    static const std::set<std::string_view> derived = {"normal_spec", "normal_resources",
                                                       "spec_format", "job_class"};
    if (derived.contains(name)) return;
    text += (text.empty() ? "" : " ") + std::string(name) + "=";
    // A digest says only that there is one: its bytes are the business of a unit test.
    if constexpr (std::is_same_v<Field, uint64_t>) {
      if (std::string_view(name) == "observed_through") {
        text += "-" + std::to_string(seq - field);
        return;
      }
    }
    text += std::string_view(name) == "rows_digest" ? "#" : Text(field);
  });
  return text;
}

template <class T>
std::string Text(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<uint32_t>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    return FormatDouble(value);
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else if constexpr (HasFields<T>) {
    return "{" + Fields(value) + "}";
  } else {
    return TextOf(value);
  }
}

}  // namespace

std::string Print(const Record& record) {
  return std::visit(
      [&](const auto& e) {
        const std::string fields = Fields(e, record.seq);
        return EventName(record.event) + (fields.empty() ? "" : " " + fields);
      },
      record.event);
}

static std::string ByWhen(Millis at) { return at == 0 ? "" : " by " + std::to_string(at); }

std::string Print(const std::vector<DesiredAttempt>& desired) {
  std::string text = "desired:";
  for (const DesiredAttempt& wanted : desired) {
    text +=
        " " + ToString(wanted.fence) + (wanted.stop ? " (stop)" : "") +
        (wanted.suspend ? " (suspend)" : "") +
        (wanted.freeze > 0 ? " (freeze " + std::to_string(wanted.freeze) + ")" : "") +
        (wanted.evict ? " (move" + ByWhen(wanted.evict_by) + ")" : "") +
        (wanted.complete_seq > 0 ? " (whole " + std::to_string(wanted.complete_seq) + ")" : "") +
        (wanted.decided_seq > 0 ? " (judged " + std::to_string(wanted.decided_seq) + ")" : "");
  }
  return desired.empty() ? "desired: nothing" : text;
}

void ExplainDifference(const std::string& path, const std::string& expected,
                       const std::string& real) {
  const std::vector<std::string> old = Split(expected, '\n'), now = Split(real, '\n');
  size_t line = 0;
  while (line < old.size() && line < now.size() && old[line] == now[line]) ++line;
  std::fprintf(stderr, "%s:%zu:\n  expected %s\n  got      %s\n", path.c_str(), line + 1,
               line < old.size() ? old[line].c_str() : "(the end)",
               line < now.size() ? now[line].c_str() : "(the end)");
}

}  // namespace rt::scenario
