#include "common/spec/patterns.h"

#include <string>

#include "common/base/pattern.h"
#include "common/base/status.h"

namespace rt {
namespace {

absl::Status At(const std::string& path, const absl::Status& refused) {
  return SpecError(path, MessageOf(refused), HintOf(refused));
}

}  // namespace

absl::Status CheckReportRegex(const ExperimentSpec& spec) {
  if (spec.report_regex.empty()) return absl::OkStatus();
  const absl::StatusOr<Pattern> pattern = Pattern::Compile(spec.report_regex);
  if (!pattern.ok()) return At("report_regex", pattern.status());
  const int groups = pattern->groups();
  if (groups != 1 && groups != 2)
    return SpecError("report_regex", "has " + std::to_string(groups) + " groups in parentheses",
                     "one group for the number of 'metric', or two for a name and its number: "
                     "'(\\w+)=([-+.\\deE]+)'");
  if (groups == 1 && spec.metric.empty())
    return SpecError("report_regex", "one group is the number of 'metric', which is not given",
                     "add 'metric', or a first group for the name");
  return absl::OkStatus();
}

absl::Status CheckPatterns(const ExperimentSpec& spec) {
  RT_RETURN_IF_ERROR(CheckReportRegex(spec));
  for (size_t i = 0; i < spec.retry.size(); ++i) {
    if (spec.retry[i].log.empty()) continue;
    const absl::StatusOr<Pattern> pattern = Pattern::Compile(spec.retry[i].log);
    if (!pattern.ok()) return At("retry/" + std::to_string(i) + "/log", pattern.status());
  }
  return absl::OkStatus();
}

}  // namespace rt
