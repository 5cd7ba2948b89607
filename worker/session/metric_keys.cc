#include "worker/session/metric_keys.h"

#include <utility>
#include <vector>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt::worker {
namespace {

constexpr size_t kNamed = 3;       // In a message.
constexpr size_t kNameShown = 64;  // Bytes of each.

std::string FirstOf(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (size_t i = 0; i < names.size() && i < kNamed; ++i)
    shown.push_back(EscapeControl(ValidUtf8(names[i], kNameShown)));
  return Join(shown, ", ") + (names.size() > kNamed ? ", ..." : "");
}

}  // namespace

absl::Status MetricKeys::Add(const Json& metrics) {
  Json flat = Flatten(metrics);
  std::vector<std::string> names, fresh;
  for (auto& [name, value] : flat.object()) names.push_back(std::move(name));
  for (const std::string& name : names)
    if (!known_.contains(name)) fresh.push_back(name);
  const char* hint = "keep arrays in a file or a checkpoint, and counters out of the names";
  if (names.size() > limits::kMetricKeysPerRow) {
    return Invalid("the row has " + std::to_string(names.size()) + " metrics (" + FirstOf(names) +
                       "); at most " + std::to_string(limits::kMetricKeysPerRow) + " are allowed",
                   hint);
  }
  if (known_.size() + fresh.size() > limits::kMetricKeysPerTrial) {
    return Invalid("a trial may report " + std::to_string(limits::kMetricKeysPerTrial) +
                       " different metrics; it has reported " + std::to_string(known_.size()) +
                       ", and the row adds " + std::to_string(fresh.size()) + " (" +
                       FirstOf(fresh) + ")",
                   hint);
  }
  for (std::string& name : fresh) known_.insert(std::move(name));
  return absl::OkStatus();
}

}  // namespace rt::worker
