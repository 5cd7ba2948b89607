#include "common/spec/reallocation.h"

#include <vector>

#include "common/base/status.h"
#include "common/spec/experiment_spec.h"

namespace rt {
namespace {

using Sharing = ReallocationSpec::Kind;

constexpr char kKey[] = "reallocation";
constexpr int64_t kTimesMax = 1'000'000;

Sharing KindOf(std::string_view name) {
  if (name == "distribute") return Sharing::kEven;
  return name == "distribute_to_top" ? Sharing::kTop : Sharing::kNone;
}

const char* PolicyName(Sharing kind) {
  return kind == Sharing::kTop ? "distribute_to_top" : "distribute";
}

absl::Status ReadAmounts(const Json& options, const std::string& path, const char* key,
                         Resources& amounts) {
  const Json* value = options.Find(key);
  if (value == nullptr || value->is_null()) return absl::OkStatus();
  RT_ASSIGN_OR_RETURN(amounts, ParseResources(*value, path + key));
  if (amounts.memory == 0 && amounts.custom.empty()) return absl::OkStatus();
  return SpecError(path + key, "has cpus and gpus only", "for example {cpu: 1}");
}

absl::Status ReadTimes(const Json& options, const std::string& path, ReallocationSpec& spec) {
  const Json* value = options.Find("increase_by_times");
  if (value == nullptr || value->is_null()) return absl::OkStatus();
  if (!value->is_int() || value->AsInt() < -1 || value->AsInt() > kTimesMax)
    return SpecError(path + "increase_by_times",
                     "must be a whole number, at most " + std::to_string(kTimesMax),
                     "0 or -1: without a limit");
  spec.increase_by_times = value->AsInt() < 0 ? 0 : value->AsInt();
  if (spec.increase_by_times > 0 && spec.increase_by.IsZero())
    return SpecError(path + "increase_by_times", "counts increase_by, which is missing",
                     "for example increase_by: {cpu: 1}");
  return absl::OkStatus();
}

absl::Status ReadMetric(const Json& options, const std::string& path, ReallocationSpec& spec) {
  for (const char* key : {"metric", "mode"})
    if (const Json* value = options.Find(key);
        value != nullptr && !value->is_null() && !value->is_string())
      return SpecError(path + key, "must be a text");
  spec.metric = options.GetString("metric");
  const std::string mode = options.GetString("mode");
  if (mode.empty() && spec.metric.empty()) return absl::OkStatus();
  if (spec.metric.empty()) return SpecError(path + "mode", "belongs to a metric", "add metric");
  if (mode != "max" && mode != "min") return SpecError(path + "mode", "must be 'max' or 'min'");
  spec.is_max = mode == "max";
  return absl::OkStatus();
}

absl::Status CheckBase(const ResourceRequest& base, const ReallocationSpec& spec) {
  if (base.is_elastic())
    return SpecError(kKey, "is not for trials whose number of ranks the head changes",
                     "leave reallocation out, or give resources/ranks as one number");
  if (!spec.add_bundles && base.is_gang())
    return SpecError(kKey,
                     "changes the only bundle of a trial, and this one has " +
                         std::to_string(base.bundles.size()),
                     "add_bundles: true adds bundles like the last one");
  if (spec.add_bundles && base.ranks_per_node > 0)
    return SpecError(kKey, "adds single bundles, and resources/ranks_per_node places groups",
                     "leave ranks_per_node out");
  // A share of a gpu is a share of one device.
  const Resources& by = spec.increase_by;
  if (by.gpu % kUnit == 0 && (by.gpu == 0 || base.one().gpu % kUnit == 0)) return absl::OkStatus();
  return SpecError(std::string(kKey) + "/" + PolicyName(spec.kind) + "/increase_by",
                   "adds whole gpus to trials that have whole gpus",
                   "for example {gpu: 1}, or {cpu: 1} for trials that share a gpu");
}

}  // namespace

absl::Status ReadReallocation(const Json& json, const ResourceRequest& base,
                              ReallocationSpec& spec) {
  const Json* value = json.Find(kKey);
  if (value == nullptr || value->is_null()) return absl::OkStatus();
  const bool is_one = value->is_object() && value->object().size() == 1;
  spec.kind = is_one ? KindOf(value->object().front().first) : Sharing::kNone;
  if (!spec.is_given())
    return SpecError(kKey, "must be one of distribute and distribute_to_top",
                     "for example {distribute: {increase_by: {cpu: 1}}}");
  const auto& [name, options] = value->object().front();
  const std::string path = std::string(kKey) + "/" + name + "/";
  const Json empty = Json::MakeObject();
  const Json& given = options.is_null() ? empty : options;
  std::vector<std::string> known = {"add_bundles", "increase_by", "increase_by_times", "reserve"};
  if (spec.kind == Sharing::kTop) known.insert(known.end(), {"metric", "mode"});
  RT_RETURN_IF_ERROR(CheckKeys(given, known, path.substr(0, path.size() - 1)));
  if (const Json* add = given.Find("add_bundles"); add != nullptr && !add->is_null()) {
    if (!add->is_bool()) return SpecError(path + "add_bundles", "must be true or false");
    spec.add_bundles = add->AsBool();
  }
  RT_RETURN_IF_ERROR(ReadAmounts(given, path, "increase_by", spec.increase_by));
  RT_RETURN_IF_ERROR(ReadAmounts(given, path, "reserve", spec.reserve));
  RT_RETURN_IF_ERROR(ReadTimes(given, path, spec));
  RT_RETURN_IF_ERROR(ReadMetric(given, path, spec));
  return CheckBase(base, spec);
}

Json NormalReallocation(const ReallocationSpec& spec) {
  return Json::MakeObject({{"kind", PolicyName(spec.kind)},
                           {"add_bundles", spec.add_bundles},
                           {"increase_by_cpu_units", spec.increase_by.cpu},
                           {"increase_by_gpu_units", spec.increase_by.gpu},
                           {"increase_by_times", spec.increase_by_times},
                           {"reserve_cpu_units", spec.reserve.cpu},
                           {"reserve_gpu_units", spec.reserve.gpu},
                           {"metric", spec.metric},
                           {"is_max", spec.is_max}});
}

ReallocationSpec ReallocationFromNormal(const Json& json) {
  ReallocationSpec spec;
  spec.kind = KindOf(json.GetString("kind"));
  spec.add_bundles = json.GetBool("add_bundles");
  spec.increase_by.cpu = json.GetInt("increase_by_cpu_units");
  spec.increase_by.gpu = json.GetInt("increase_by_gpu_units");
  spec.increase_by_times = json.GetInt("increase_by_times");
  spec.reserve.cpu = json.GetInt("reserve_cpu_units");
  spec.reserve.gpu = json.GetInt("reserve_gpu_units");
  spec.metric = json.GetString("metric");
  spec.is_max = json.GetBool("is_max", true);
  return spec;
}

}  // namespace rt
