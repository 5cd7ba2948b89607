#include "common/spec/policies.h"

#include <algorithm>
#include <cmath>

#include "common/base/limits.h"
#include "common/base/quantity.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/experiment_spec.h"

namespace rt {
namespace {

constexpr size_t kRulesMax = 32;
constexpr size_t kPatternBytesMax = 1'000;
constexpr double kSecondsMost = 1e7;

// The value of a key that is there and not null.
const Json* Given(const Json& json, const char* key) {
  const Json* value = json.Find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

absl::Status ReadExitCode(const Json& code, const std::string& path, std::vector<int>& codes) {
  if (!code.is_int() || code.AsInt() < 1 || code.AsInt() > 255)
    return SpecError(path, "must be an exit code from 1 to 255, or a list of them",
                     "128 + n stands for signal n: 137 is SIGKILL");
  codes.push_back(static_cast<int>(code.AsInt()));
  return absl::OkStatus();
}

absl::Status ReadAction(const Json& json, const std::string& path, RetryAction& action) {
  const Json* then = Given(json, "then");
  const std::string name = then != nullptr && then->is_string() ? then->AsString() : "";
  for (RetryAction known : {RetryAction::kRetry, RetryAction::kFail, RetryAction::kExcludeNode}) {
    if (name != RetryActionName(known)) continue;
    action = known;
    return absl::OkStatus();
  }
  return SpecError(then == nullptr ? path : path + "/then",
                   "'then' must be retry, fail or exclude_node");
}

absl::StatusOr<RetryRule> ReadRule(const Json& json, const std::string& path) {
  if (!json.is_object()) return SpecError(path, "must be a map: {exit_code: 137, then: retry}");
  RT_RETURN_IF_ERROR(CheckKeys(json, {"exit_code", "log", "oom", "then"}, path));
  RetryRule rule;
  if (const Json* code = Given(json, "exit_code"); code != nullptr && code->is_array()) {
    if (code->array().empty() || code->array().size() > 255)
      return SpecError(path + "/exit_code", "must be a list of exit codes");
    for (const Json& one : code->array())
      RT_RETURN_IF_ERROR(ReadExitCode(one, path + "/exit_code", rule.exit_codes));
  } else if (code != nullptr) {
    RT_RETURN_IF_ERROR(ReadExitCode(*code, path + "/exit_code", rule.exit_codes));
  }
  if (const Json* log = Given(json, "log"); log != nullptr) {
    const bool is_text = log->is_string() && !log->AsString().empty();
    if (!is_text || log->AsString().size() > kPatternBytesMax)
      return SpecError(path + "/log", "must be a regular expression of at most 1000 bytes");
    rule.log = log->AsString();
  }
  if (const Json* oom = Given(json, "oom"); oom != nullptr) {
    if (!oom->is_bool() || !oom->AsBool())
      return SpecError(path + "/oom", "must be true: the program ran out of gpu memory",
                       "leave it out to match every failure");
    rule.out_of_gpu_memory = true;
  }
  if (rule.exit_codes.empty() && rule.log.empty() && !rule.out_of_gpu_memory)
    return SpecError(path, "needs 'exit_code', 'log' or 'oom'",
                     "max_failures is for every failure");
  RT_RETURN_IF_ERROR(ReadAction(json, path, rule.then));
  return rule;
}

absl::Status ReadSeconds(const Json& json, const std::string& path, const char* key, Millis& out) {
  const Json* value = Given(json, key);
  if (value == nullptr) return absl::OkStatus();
  const std::optional<double> seconds = SecondsOf(*value);
  if (!seconds || !(*seconds > 0) || *seconds > kSecondsMost)
    return SpecError(path + "/" + key, "must be a time such as 90, 15m or 1h30m");
  out = std::max<Millis>(1, static_cast<Millis>(*seconds * 1'000));
  return absl::OkStatus();
}

absl::Status ReadCount(const Json& json, const std::string& path, const char* key, int64_t most,
                       int& out) {
  const Json* value = Given(json, key);
  if (value == nullptr) return absl::OkStatus();
  if (!value->is_int() || value->AsInt() < 0 || value->AsInt() > most)
    return SpecError(path + "/" + key,
                     "must be a whole number between 0 and " + std::to_string(most));
  out = static_cast<int>(value->AsInt());
  return absl::OkStatus();
}

}  // namespace

const char* DurableAfterName(DurableAfter where) {
  switch (where) {
    case DurableAfter::kStore: return "store";
    case DurableAfter::kPeer: return "peer";
    case DurableAfter::kLocal: return "local";
  }
  return "";
}

const char* RetryActionName(RetryAction action) {
  switch (action) {
    case RetryAction::kRetry: return "retry";
    case RetryAction::kFail: return "fail";
    case RetryAction::kExcludeNode: return "exclude_node";
  }
  return "";
}

bool RetryRule::Matches(int exit_code, bool logged, bool oom) const {
  if (off || (out_of_gpu_memory && !oom)) return false;
  const bool code_fits = exit_codes.empty() || std::find(exit_codes.begin(), exit_codes.end(),
                                                         exit_code) != exit_codes.end();
  return code_fits && (log.empty() || logged);
}

absl::Status ReadRetry(const Json& json, std::vector<RetryRule>& rules) {
  const Json* list = Given(json, "retry");
  if (list == nullptr) return absl::OkStatus();
  if (!list->is_array() || list->array().size() > kRulesMax)
    return SpecError("retry", "must be a list of at most 32 rules",
                     "retry: [{exit_code: 137, then: retry}]");
  for (size_t i = 0; i < list->array().size(); ++i) {
    RT_ASSIGN_OR_RETURN(RetryRule rule,
                        ReadRule(list->array()[i], "retry/" + std::to_string(i)));
    rules.push_back(std::move(rule));
  }
  return absl::OkStatus();
}

absl::Status ReadBreaker(const Json& json, BreakerSpec& breaker) {
  const Json* value = Given(json, "breaker");
  if (value == nullptr) return absl::OkStatus();
  if (value->is_bool() && !value->AsBool()) {
    breaker.trials = 0;
    return absl::OkStatus();
  }
  if (!value->is_object())
    return SpecError("breaker", "must be false or a map: {trials: 5, within: 60}");
  RT_RETURN_IF_ERROR(CheckKeys(*value, {"trials", "within"}, "breaker"));
  RT_RETURN_IF_ERROR(ReadCount(*value, "breaker", "trials", 1'000, breaker.trials));
  return ReadSeconds(*value, "breaker", "within", breaker.within);
}

absl::Status ReadWatchdog(const Json& json, WatchdogSpec& watchdog) {
  const Json* value = Given(json, "watchdog");
  if (value == nullptr) return absl::OkStatus();
  if (!value->is_object())
    return SpecError("watchdog", "must be a map: {factor: 10, min: 60, restarts: 3}");
  RT_RETURN_IF_ERROR(CheckKeys(*value, {"factor", "min", "restarts", "dump"}, "watchdog"));
  const Json* factor = Given(*value, "factor");
  const bool is_number = factor != nullptr && factor->is_number();
  if (!is_number || !(factor->AsDouble() > 1) || factor->AsDouble() > 1e6)
    return SpecError(factor == nullptr ? "watchdog" : "watchdog/factor",
                     "'factor' must be a number above 1", "10 waits for ten of its intervals");
  watchdog.factor = factor->AsDouble();
  RT_RETURN_IF_ERROR(ReadSeconds(*value, "watchdog", "min", watchdog.min));
  RT_RETURN_IF_ERROR(ReadCount(*value, "watchdog", "restarts", 1'000, watchdog.restarts));
  const Json* dump = Given(*value, "dump");
  if (dump != nullptr && !dump->is_bool())
    return SpecError("watchdog/dump", "must be true or false");
  if (dump != nullptr) watchdog.dump = dump->AsBool();
  return absl::OkStatus();
}

absl::Status ReadPreflight(const Json& json, const ResourceRequest& resources,
                           PreflightSpec& preflight) {
  const Json* value = Given(json, "preflight");
  if (value == nullptr || (value->is_bool() && !value->AsBool())) return absl::OkStatus();
  if (!value->is_bool() && !value->is_object())
    return SpecError("preflight", "must be true, false or a map: {min_bus_gbps: 200}");
  if (value->is_object()) {
    RT_RETURN_IF_ERROR(CheckKeys(*value, {"min_bus_gbps"}, "preflight"));
    const Json* least = Given(*value, "min_bus_gbps");
    if (least != nullptr) {
      if (!least->is_number() || !(least->AsDouble() > 0) || least->AsDouble() > 1e6)
        return SpecError("preflight/min_bus_gbps", "must be a number of GB/s above 0");
      preflight.min_bus_gbps = least->AsDouble();
    }
  }
  const int64_t gpus = resources.Total().gpu;
  if (gpus == 0)
    return SpecError("preflight", "tests gpus, and the resources ask for none",
                     "add gpu: 1 to the resources, or leave preflight out");
  for (const Resources& bundle : resources.bundles)
    if (bundle.gpu % kUnit != 0)
      return SpecError("preflight",
                       "tests whole gpus, and " + FormatUnits(bundle.gpu) +
                           " of one is shared with other trials",
                       "ask for gpu: 1, or leave preflight out");
  if (preflight.min_bus_gbps > 0 && gpus == kUnit && !resources.is_elastic())
    return SpecError("preflight/min_bus_gbps", "is measured between gpus, and there is one",
                     "preflight: true tests that one");
  preflight.wanted = true;
  return absl::OkStatus();
}

}  // namespace rt
