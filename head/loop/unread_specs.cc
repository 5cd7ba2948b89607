#include "head/loop/unread_specs.h"

#include "common/base/log.h"

namespace rt {

void LogUnreadSpecs(const World& world) {
  for (const auto& [id, index] : world.index.experiments) {
    if (world.state.experiments.at(id).finished) continue;
    for (const std::string& warning : index.warnings) {
      RT_LOG(kWarning) << "experiment " << id.value << ": " << warning;
    }
  }
  for (const auto& [id, index] : world.index.jobs) {
    if (world.state.jobs.at(id).end != JobEnd::kNone) continue;
    for (const std::string& warning : index.warnings) {
      RT_LOG(kWarning) << "job " << id.value << ": " << warning;
    }
  }
}

}  // namespace rt
