// The command of a trial: its words, with the parameters filled in.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/experiment_spec.h"

namespace rt {
namespace {

// The text of each parameter that a command names, made once, however often it is named.
class ParameterTexts {
 public:
  ParameterTexts(const Json& params, const Space& space) : params_(params), space_(space) {}
  // `path`: of the argument, for the error. Null: this configuration does not have the parameter.
  absl::StatusOr<const std::string*> Find(std::string_view name, const std::string& path) {
    const auto known = texts_.find(name);
    if (known != texts_.end()) return &known->second;
    const Json* value = FindFlat(params_, name);
    if (value != nullptr) {
      std::string text = value->is_string() ? value->AsString() : value->Dump();
      return &texts_.emplace(name, std::move(text)).first->second;
    }
    if (IsKnown(name)) return nullptr;
    std::vector<std::string> names;
    const Json flat = Flatten(params_);
    for (const auto& [key, ignored] : flat.object()) names.push_back(key);
    const std::string unknown(name);
    const std::string hint = DidYouMean(unknown, names);
    return SpecError(path, "no parameter is called '" + unknown + "'",
                     hint.empty() ? "the space has: " + Join(names, ", ") : hint);
  }

 private:
  // Whether it is in some configurations.
  bool IsKnown(std::string_view name) const {
    const Json* value = FindFlat(space_.skeleton, name);
    if (value != nullptr) return true;
    for (const Variable& variable : space_.variables) {
      if (PathText(variable.path) == name) return true;
      for (const Json& each : variable.domain.values) {
        const std::string path = PathText(variable.path) + "/";
        if (each.is_object() && name.starts_with(path) &&
            FindFlat(each, name.substr(path.size())) != nullptr)
          return true;
      }
    }
    return false;
  }

  const Json& params_;
  const Space& space_;
  std::map<std::string, std::string, std::less<>> texts_;
};

absl::Status TooLongCommand() {
  return SpecError("command", "is longer than 1 MiB once its parameters are filled in",
                   "let the program read large parameters from the file in RT_CONFIG");
}

}  // namespace

absl::StatusOr<std::vector<std::string>> SubstituteCommand(const std::vector<std::string>& command,
                                                           const Json& params, const Space& space) {
  ParameterTexts texts(params, space);
  std::vector<std::string> argv;
  size_t left = limits::kArgvBytesMax;
  for (size_t i = 0; i < command.size(); ++i) {
    const std::string path = "command/" + std::to_string(i);
    std::string_view rest = command[i];
    std::string out;
    bool is_left_out = false;
    while (true) {
      const size_t open = rest.find("${");
      const size_t close = open == std::string_view::npos ? open : rest.find('}', open);
      const bool is_last = open == std::string_view::npos;
      if (!is_last && close == std::string_view::npos) return SpecError(path, "'${' without '}'");
      out += rest.substr(0, open);
      if (!is_last) {
        RT_ASSIGN_OR_RETURN(const std::string* text,
                            texts.Find(rest.substr(open + 2, close - open - 2), path));
        if (text == nullptr) {
          is_left_out = true;
        } else if (text->size() > left) {
          return TooLongCommand();
        } else {
          out += *text;
        }
        rest.remove_prefix(close + 1);
      }
      if (out.size() >= left) return TooLongCommand();
      if (is_last) break;
    }
    if (is_left_out && i == 0)
      return SpecError(path, "the program depends on a parameter that some configurations lack",
                       "give such parameters to the program as arguments");
    if (is_left_out) continue;
    left -= out.size() + 1;  // With its NUL.
    argv.push_back(std::move(out));
  }
  return argv;
}

}  // namespace rt
