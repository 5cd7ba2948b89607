// `rt doctor`: what may be wrong here and with the cluster, each with what to do about it.
#include <cstdio>

#include "cli/commands/common.h"
#include "cli/doctor.h"
#include "cli/render/table.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

Json JsonOf(const Finding& finding) {
  return Json::MakeObject({{"check", finding.check},
                           {"status", GradeName(finding.grade)},
                           {"message", finding.message},
                           {"hint", finding.hint.empty() ? Json() : Json(finding.hint)}});
}

void PrintFinding(const Finding& finding, bool color) {
  bool ok = finding.grade == Finding::Grade::kOk;
  const char* ink = ok ? "\x1b[32m" : finding.grade == Finding::Grade::kWarn ? "\x1b[33m"
                                                                            : "\x1b[31m";
  std::printf("%s%-4s%s  %-14s  %s\n", color ? ink : "", GradeName(finding.grade),
              color ? "\x1b[0m" : "", EscapeControl(finding.check).c_str(),
              EscapeControl(finding.message).c_str());
  if (!finding.hint.empty()) std::printf("%22sdo: %s\n", "", EscapeControl(finding.hint).c_str());
}

}  // namespace

ExitCode RunDoctor(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(Home home, Home::Open());
  std::vector<Finding> findings = ExamineMachine(home);
  Json probe;
  std::set<std::string> used;
  absl::StatusOr<std::string> name = home.Choose(invocation.cluster);
  if (invocation.probe_gpus) {
    if (name.ok()) used = GpusInUse(home, *name);
    for (Finding& finding : ExamineGpus(probe)) findings.push_back(std::move(finding));
  }
  if (name.ok()) {
    for (Finding& finding : ExamineCluster(home, *name)) findings.push_back(std::move(finding));
    for (Finding& finding : TellCluster(home, *name, probe, std::move(used)))
      findings.push_back(std::move(finding));
  } else {
    // Only a warning, unless -c or the current context names a cluster.
    bool asked = !invocation.cluster.empty() || !home.Current().empty();
    findings.push_back({"cluster", asked ? Finding::Grade::kFail : Finding::Grade::kWarn,
                        MessageOf(name.status()),
                        HintOf(name.status()).empty() ? "rt context list shows those that are known"
                                                      : HintOf(name.status())});
  }
  Json items = Json::MakeArray();
  bool failed = false;
  for (const Finding& finding : findings) {
    failed = failed || finding.grade == Finding::Grade::kFail;
    items.Append(JsonOf(finding));
    if (invocation.output == Output::kTable) PrintFinding(finding, invocation.color);
  }
  if (invocation.output == Output::kJson)
    PrintJson(Json::MakeObject({{"schema", 1}, {"items", std::move(items)}, {"next", nullptr}}));
  return failed ? kExitFailed : kExitOk;
}

}  // namespace rt
