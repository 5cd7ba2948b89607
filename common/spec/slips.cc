#include "common/spec/slips.h"

#include <algorithm>
#include <cctype>
#include <functional>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/experiment_spec.h"
#include "common/spec/item_name.h"
#include "common/spec/space.h"

namespace rt {
namespace {

constexpr int kNestingMax = 32;  // As ParseSpace has it.

// "tune.log_Uniform" as "loguniform".
std::string Plain(std::string_view name) {
  if (name.starts_with("tune.")) name.remove_prefix(5);
  std::string plain;
  for (char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)))
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return plain;
}

std::optional<std::string> NearName(std::string_view name, std::vector<std::string> known) {
  const std::string plain = Plain(name);
  for (const std::string& each : known)
    if (Plain(each) == plain) return each;
  const std::optional<std::string> near = NearestWord(plain, known);
  if (!near.has_value()) return std::nullopt;
  // NearestWord also takes a word that goes on after a known one: "grid_points" is no slip.
  const size_t more = std::max(plain.size(), near->size()) - std::min(plain.size(), near->size());
  return more <= std::max<size_t>(1, plain.size() / 3) ? near : std::nullopt;
}

bool IsDistribution(std::string_view name) {
  const std::vector<std::string>& names = DistributionNames();
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Calls `at` for every value below the space that is no part of a distribution, of an explicit
// constant, nor of a condition; the first error ends it.
struct SpaceWalk {
  std::function<absl::Status(const std::string& path, const Json& value)> at;

  absl::Status Visit(const Json& value, const std::string& path, int depth) {
    if (depth > kNestingMax) return absl::OkStatus();  // ParseSpace says so.
    if (const Json* condition = value.is_object() && depth > 0 ? value.Find("if") : nullptr;
        condition != nullptr && condition->is_object()) {
      Json rest = value;
      rest.Erase("if");
      return Visit(rest, path, depth);
    }
    const bool one = value.is_object() && value.object().size() == 1 && depth > 0;
    if (one) {
      const std::string& name = value.object().front().first;
      if (name == "constant" || IsDistribution(name)) return absl::OkStatus();
    }
    if (depth > 0) RT_RETURN_IF_ERROR(at(path, value));
    if (value.is_object())
      for (const auto& [key, inner] : value.object())
        RT_RETURN_IF_ERROR(Visit(inner, path + "/" + key, depth + 1));
    if (value.is_array())
      for (size_t i = 0; i < value.array().size(); ++i)
        RT_RETURN_IF_ERROR(
            Visit(value.array()[i], path + "/" + std::to_string(i), depth + 1));
    return absl::OkStatus();
  }
};

absl::Status Misspelt(const std::string& path, const std::string& name, const std::string& near) {
  return SpecError(path + "/" + name, "unknown distribution '" + EscapeControl(name) + "'",
                   "did you mean '" + near +
                       "'? To give the trials this map itself, write "
                       "{constant: {" +
                       EscapeControl(name) + ": [...]}}");
}

absl::Status CheckName(const std::string& path, const Json& value) {
  if (!value.is_object() || value.object().size() != 1) return absl::OkStatus();
  const auto& [name, arguments] = value.object().front();
  if (!arguments.is_array()) return absl::OkStatus();  // No distribution takes anything else.
  std::vector<std::string> known = DistributionNames();
  known.push_back("constant");
  const std::optional<std::string> near = NearName(name, std::move(known));
  return near.has_value() ? Misspelt(path, name, *near) : absl::OkStatus();
}

bool IsGivenDistribution(const Json::Member& member) {
  return IsDistribution(member.first) && member.second.is_array();
}

// {uniform: [0, 1], choice: [1, 2]}, and an `if` beside a distribution that is no map.
absl::Status CheckAlone(const std::string& path, const Json& value) {
  if (!value.is_object() || value.object().size() < 2) return absl::OkStatus();
  const Json::Object& members = value.object();
  const auto given = std::count_if(members.begin(), members.end(), IsGivenDistribution);
  const Json* condition = value.Find("if");
  if (condition != nullptr && !condition->is_object() && given == 1 && members.size() == 2)
    return SpecError(path + "/if", "must be a map of parameters to their values",
                     "for example if: {optimizer: adam}");
  if (given < 2 || static_cast<size_t>(given) < members.size()) return absl::OkStatus();
  std::vector<std::string> names;
  for (const auto& [name, arguments] : members) names.push_back(name);
  return SpecError(path, "has several distributions: " + Join(names, ", "), "give it one of them");
}

// "tune.uniform(0, 1)" where the YAML form belongs.
absl::Status CheckCall(const std::string& path, const Json& value) {
  if (!value.is_string() || !value.AsString().ends_with(')')) return absl::OkStatus();
  const std::string& text = value.AsString();
  const size_t open = text.find('(');
  if (open == std::string::npos || !IsDistribution(Plain(text.substr(0, open))))
    return absl::OkStatus();
  const std::string name = Plain(text.substr(0, open));
  const std::string inner = text.substr(open + 1, text.size() - open - 2);
  const bool listed = inner.starts_with('[');
  return SpecError(path, "is a text, not a distribution",
                   "write {" + name + ": " + (listed ? inner : "[" + inner + "]") + "}");
}

std::string NameBelow(const std::string& path) { return path.substr(path.find('/') + 1); }

bool IsPlainList(const Json& value) {
  if (!value.is_array() || value.array().size() < 2) return false;
  return std::none_of(value.array().begin(), value.array().end(), [](const Json& item) {
    return item.is_object() || item.is_array();
  });
}

}  // namespace

absl::Status CheckSpaceNames(const Json& space, std::string_view path) {
  SpaceWalk walk{CheckName};
  return walk.Visit(space, std::string(path), 0);
}

absl::Status CheckWritten(const Json& spec) {
  if (const std::string name = spec.GetString("experiment"); !name.empty())
    RT_RETURN_IF_ERROR(CheckItemName("experiment", name));
  if (const Json* space = spec.Find("space"); space != nullptr && space->is_object()) {
    RT_RETURN_IF_ERROR(CheckSpaceNames(*space, "space"));
    SpaceWalk walk{[](const std::string& path_of, const Json& value) {
      RT_RETURN_IF_ERROR(CheckAlone(path_of, value));
      return CheckCall(path_of, value);
    }};
    RT_RETURN_IF_ERROR(walk.Visit(*space, "space", 0));
  }
  const Json* mode = spec.Find("mode");
  const Json* metric = spec.Find("metric");
  const bool has_metric = metric != nullptr && !metric->is_null() && *metric != Json("");
  if (mode != nullptr && !mode->is_null() && !has_metric)
    return SpecError("mode", "stands without 'metric'", "add metric: NAME, or leave mode out");
  return absl::OkStatus();
}

// Trials with several ranks are never frozen (docs/adr/0043).
static void AddSuspendNote(const Json& spec, std::vector<SpecNote>& notes) {
  const Json* resources = spec.Find("resources");
  if (!spec.GetBool("suspend") || resources == nullptr || !resources->is_object()) return;
  const Json* ranks = resources->Find("ranks");
  const Json* bundles = resources->Find("bundles");
  const bool has_several =
      (ranks != nullptr && *ranks != Json(1)) ||
      (bundles != nullptr && bundles->is_array() && bundles->array().size() > 1);
  if (has_several)
    notes.push_back({"suspend",
                     "suspend has no effect: its trials have several ranks, which are "
                     "paused and preempted by a checkpoint"});
}

std::vector<SpecNote> NotesOf(const Json& spec) {
  std::vector<SpecNote> notes;
  AddSuspendNote(spec, notes);
  const Json* space = spec.Find("space");
  if (space == nullptr || !space->is_object()) return notes;
  SpaceWalk walk{[&](const std::string& path, const Json& value) {
    const std::string name = NameBelow(path);
    const std::string key = path.substr(path.rfind('/') + 1);
    if (IsPlainList(value) && IsDistribution(key) && name != key) {
      notes.push_back(
          {path, name + " is the same list in every trial, because '" + key +
                     "' is not the only key of its map; a distribution stands alone: {" + key +
                     ": " + value.Dump() + "}"});
    } else if (IsPlainList(value)) {
      const std::string list = value.Dump();
      notes.push_back({path, name + " is the same list in every trial; to draw one of its values "
                             "write {choice: " + list + "}, to try each {grid: " + list + "}"});
    } else if (value.is_object() && value.object().size() == 1 &&
               NearName(value.object().front().first, DistributionNames()).has_value()) {
      notes.push_back({path, name + " is the same map in every trial: '" +
                             value.object().front().first + "' is no distribution"});
    }
    return absl::OkStatus();
  }};
  walk.Visit(*space, "space", 0).IgnoreError();  // The visitor refuses nothing.
  return notes;
}

std::string ResourceHint(std::string_view name) {
  const std::optional<std::string> near =
      NearName(name, {"cpu", "gpu", "memory", "ranks", "ranks_per_node", "bundles", "strategy",
                      "gpu_sharing", "gpu_type"});
  return near.has_value() ? "did you mean '" + *near + "'?" : "";
}

}  // namespace rt
