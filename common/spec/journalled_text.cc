// Format 0: the user's text as release 0.1.0 journalled it. The parser for users reads it; each
// piece that the parser refuses is taken out until it accepts the rest. A piece is large enough
// that nothing is read as something else: a scheduler with one refused number is left out whole.
#include <algorithm>
#include <set>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/journalled_spec.h"
#include "common/spec/resource_bounds.h"

namespace rt {
namespace {

constexpr size_t kRepairsMax = 256;     // More pieces than that are not told apart.
constexpr size_t kBundlesEver = 1'024;  // Of one request, in release 0.1.0.
constexpr char kIgnored[] = "; it is ignored";
constexpr char kKept[] = "; it stays as it was written";

std::vector<std::string> TextsOf(const Json* list) {
  std::vector<std::string> texts;
  if (list == nullptr || !list->is_array()) return texts;
  for (const Json& item : list->array())
    texts.push_back(item.is_string() ? item.AsString() : item.Dump());
  return texts;
}

std::vector<std::string> CommandOf(const Json& json) {
  const std::string script = json.GetString("script");
  std::vector<std::string> argv = TextsOf(json.Find("command"));
  if (argv.empty() && !script.empty()) argv = {script};
  if (!script.empty() && script.ends_with(".py")) argv = {"python3", script};
  return argv.empty() ? std::vector<std::string>{"false"} : argv;
}

Json Minimal() {
  return Json::MakeObject({{"experiment", "unnamed"}, {"command", Json(Json::Array{"false"})}});
}

// Takes out of an experiment what its parser refuses.
class Repair {
 public:
  explicit Repair(const Json& json)
      : written_(json), left_(json.is_object() ? json : Json::MakeObject()) {}

  SpecReading<ExperimentSpec> Run() {
    reading_.closed = !written_.is_object();
    absl::StatusOr<ExperimentSpec> spec = ParseExperimentSpec(left_, SpecSource::kJournal);
    for (size_t i = 0; i < kRepairsMax && !spec.ok(); ++i) {
      TakeOut(SpecPathOf(spec.status()), MessageOf(spec.status()));
      spec = ParseExperimentSpec(left_, SpecSource::kJournal);
    }
    if (!spec.ok()) {
      reading_.warnings.push_back("the rest cannot be read: " + MessageOf(spec.status()));
      reading_.closed = keeps_name_ = keeps_command_ = keeps_resources_ = true;
      spec = ParseExperimentSpec(Minimal(), SpecSource::kJournal);
    }
    if (spec.ok()) reading_.spec = *std::move(spec);
    PutBack();
    reading_.spec.strict_metric = false;  // Release 0.1.0 accepted every row.
    return std::move(reading_);
  }

 private:
  void TakeOut(const std::string& path, const std::string& why) {
    const std::string top = path.substr(0, path.find('/'));
    const std::string below = top.size() < path.size() ? path.substr(top.size() + 1) : "";
    if (top == "experiment" && !std::exchange(keeps_name_, true)) {
      left_.Set("experiment", "unnamed");
      return Warn(why + kKept);
    }
    if ((top == "command" || top == "script") && !std::exchange(keeps_command_, true)) {
      left_.Erase("script");
      left_.Set("command", Json(Json::Array{"false"}));
      return Warn(why + kKept);
    }
    if (top == "resources") {
      left_.Erase(top);
      keeps_resources_ = true;  // ReadResourcesText warns.
      return;
    }
    Warn(why + kIgnored);
    if (top == "space" || top == "search" || top == "num_samples") reading_.closed = true;
    if (TakeRule(top, below) || TakeInput(top) || left_.Erase(path)) return;
    // One of several that do not depend on each other.
    static const std::set<std::string> loose = {"stop",    "env",    "checkpoints", "watchdog",
                                                "breaker", "driver"};
    Json* holder = left_.Find(top);
    const bool is_held = loose.contains(top) && holder != nullptr && holder->is_object();
    if (!is_held || !holder->Erase(below)) left_.Erase(top);
  }
  // A retry rule leaves its place: the rules behind it keep their numbers.
  bool TakeRule(const std::string& top, const std::string& below) {
    Json* rules = left_.Find("retry");
    if (top != "retry" || rules == nullptr || !rules->is_array()) return false;
    const size_t index = static_cast<size_t>(std::atoll(below.c_str()));
    if (below.empty() || index >= rules->array().size()) return false;
    rules->array()[index] = Json::MakeObject({{"exit_code", 1}, {"then", "fail"}});
    return off_.insert(index).second;
  }
  // An error does not say which of the inputs it is about.
  bool TakeInput(const std::string& top) {
    Json* inputs = left_.Find("inputs");
    if (top != "inputs" || inputs == nullptr || !inputs->is_array()) return false;
    const size_t before = inputs->array().size();
    std::erase_if(inputs->array(), [](const Json& item) {
      Json alone = Minimal();
      alone.Set("inputs", Json(Json::Array{item}));
      return !ParseExperimentSpec(alone, SpecSource::kJournal).ok();
    });
    return inputs->array().size() < before;
  }
  void PutBack() {
    ExperimentSpec& spec = reading_.spec;
    if (keeps_name_ && written_.is_object())
      spec.name = written_.GetString("experiment", spec.name);
    if (keeps_command_) spec.command = CommandOf(written_);
    const Json* rules = written_.Find("retry");
    if (rules != nullptr && rules->is_array() && spec.retry.size() < rules->array().size())
      spec.retry.resize(rules->array().size(), RetryRule{.off = true});
    for (size_t index : off_) spec.retry.at(index) = RetryRule{.off = true};
    const Json* resources = written_.Find("resources");
    if (!keeps_resources_ || resources == nullptr) return;
    SpecReading<ResourceRequest> request = ReadResourcesText(*resources, "resources");
    spec.resources = std::move(request.spec);
    for (std::string& warning : request.warnings) Warn(std::move(warning));
  }
  void Warn(std::string text) { reading_.warnings.push_back(std::move(text)); }

  const Json& written_;
  Json left_;
  SpecReading<ExperimentSpec> reading_;
  bool keeps_name_ = false, keeps_command_ = false, keeps_resources_ = false;
  std::set<size_t> off_;  // Retry rules.
};

Resources BundleFrom(const Json& json, const std::string& path,
                     std::vector<std::string>& warnings) {
  Resources sum;
  if (!json.is_object()) return sum;
  for (const auto& [key, value] : json.object()) {
    absl::StatusOr<Resources> one = ParseResources(Json::MakeObject({{key, value}}), path);
    if (one.ok()) sum.Add(*one);
    else warnings.push_back(MessageOf(one.status()) + kIgnored);
  }
  return sum;
}

// Earlier releases had no bound on the custom resources that a request names.
bool NamesTooMany(const ResourceRequest& request) {
  size_t names = 0;
  bool is_too_many = false;
  for (const Resources& bundle : request.bundles) {
    names += bundle.custom.size();
    is_too_many = is_too_many || bundle.custom.size() > limits::kCustomResourcesMax;
  }
  return is_too_many || names > limits::kBundleNamesMax;
}

}  // namespace

SpecReading<ExperimentSpec> ReadExperimentText(const Json& json) { return Repair(json).Run(); }

SpecReading<JobSpec> ReadJobText(const Json& json) {
  SpecReading<JobSpec> reading;
  JobSpec& spec = reading.spec;
  spec.name = json.GetString("name");
  spec.bundle = json.GetString("bundle");
  spec.cwd = json.GetString("cwd");
  spec.argv = TextsOf(json.Find("argv"));
  if (spec.argv.empty()) {
    reading.warnings.push_back("argv: there is no program to run");
    spec.argv = {"false"};
  }
  if (const Json* env = json.Find("env"); env != nullptr && env->is_object())
    for (const auto& [name, value] : env->object())
      if (value.is_string()) spec.env[name] = value.AsString();
  const Json* resources = json.Find("resources");
  if (resources == nullptr || resources->is_null()) return reading;
  SpecReading<ResourceRequest> request = ReadResourcesText(*resources, "resources");
  spec.resources = std::move(request.spec);
  reading.warnings.insert(reading.warnings.end(), request.warnings.begin(),
                          request.warnings.end());
  return reading;
}

SpecReading<ResourceRequest> ReadResourcesText(const Json& json, std::string_view path) {
  SpecReading<ResourceRequest> reading;
  absl::StatusOr<ResourceRequest> strict = ParseResourceRequest(json, path);
  if (strict.ok()) {
    reading.spec = *std::move(strict);
    return reading;
  }
  // As many bundles as there were: attempts may live in them.
  const std::string below(path);
  std::vector<Resources> bundles;
  const Json* list = json.Find("bundles");
  if (list != nullptr && list->is_array()) {
    for (const Json& item : list->array())
      bundles.push_back(BundleFrom(item, below + "/bundles", reading.warnings));
  }
  Json plain = json.is_object() ? json : Json::MakeObject();
  for (const char* key :
       {"bundles", "ranks", "ranks_per_node", "strategy", "gpu_sharing", "gpu_type"})
    plain.Erase(key);
  const int64_t ranks = json.GetInt("ranks", 1);
  if (bundles.empty()) {
    const int64_t count = std::clamp<int64_t>(ranks, 1, kBundlesEver);
    bundles.assign(static_cast<size_t>(count), BundleFrom(plain, below, reading.warnings));
  }
  reading.spec.bundles = std::move(bundles);
  const auto most = static_cast<int64_t>(reading.spec.bundles.size());
  reading.spec.ranks = static_cast<uint32_t>(ranks >= 1 && ranks < most ? ranks : most);
  if (list != nullptr && json.Find("ranks") == nullptr)
    reading.spec.ranks = static_cast<uint32_t>(most);
  if (reading.warnings.empty())
    reading.warnings.push_back(MessageOf(strict.status()) +
                               (NamesTooMany(reading.spec) ? kKept : kIgnored));
  // How they are spread is read by itself.
  Json spread = Json::MakeObject();
  for (const char* key : {"strategy", "gpu_sharing"})
    if (const Json* value = json.Find(key)) spread.Set(key, *value);
  if (auto request = ParseResourceRequest(spread, path); request.ok()) {
    reading.spec.strategy = request->strategy;
    reading.spec.spread_gpus = request->spread_gpus;
  }
  return reading;
}

}  // namespace rt
