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
  explicit ParameterTexts(const Json& params) : params_(params) {}
  // `path`: of the argument, for the error.
  absl::StatusOr<const std::string*> Find(std::string_view name, const std::string& path) {
    const auto known = texts_.find(name);
    if (known != texts_.end()) return &known->second;
    const Json* value = FindFlat(params_, name);
    if (value != nullptr) {
      std::string text = value->is_string() ? value->AsString() : value->Dump();
      return &texts_.emplace(name, std::move(text)).first->second;
    }
    std::vector<std::string> names;
    const Json flat = Flatten(params_);
    for (const auto& [key, ignored] : flat.object()) names.push_back(key);
    const std::string unknown(name);
    const std::string hint = DidYouMean(unknown, names);
    return SpecError(path, "no parameter is called '" + unknown + "'",
                     hint.empty() ? "the space has: " + Join(names, ", ") : hint);
  }

 private:
  const Json& params_;
  std::map<std::string, std::string, std::less<>> texts_;
};

absl::Status TooLongCommand() {
  return SpecError("command", "is longer than 1 MiB once its parameters are filled in",
                   "let the program read large parameters from the file in RT_CONFIG");
}

}  // namespace

absl::StatusOr<std::vector<std::string>> SubstituteCommand(const std::vector<std::string>& command,
                                                           const Json& params) {
  ParameterTexts texts(params);
  std::vector<std::string> argv;
  size_t left = limits::kArgvBytesMax;
  for (size_t i = 0; i < command.size(); ++i) {
    const std::string path = "command/" + std::to_string(i);
    std::string_view rest = command[i];
    std::string out;
    while (true) {
      const size_t open = rest.find("${");
      const size_t close = open == std::string_view::npos ? open : rest.find('}', open);
      const bool is_last = open == std::string_view::npos;
      if (!is_last && close == std::string_view::npos) return SpecError(path, "'${' without '}'");
      out += rest.substr(0, open);
      if (!is_last) {
        RT_ASSIGN_OR_RETURN(const std::string* text,
                            texts.Find(rest.substr(open + 2, close - open - 2), path));
        if (text->size() > left) return TooLongCommand();
        out += *text;
        rest.remove_prefix(close + 1);
      }
      if (out.size() >= left) return TooLongCommand();
      if (is_last) break;
    }
    left -= out.size() + 1;  // With its NUL.
    argv.push_back(std::move(out));
  }
  return argv;
}

}  // namespace rt
