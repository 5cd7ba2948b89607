// `rt doctor --gpu`: what rt-probe finds on this machine's gpus, and whether its driver can suspend
// processes.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "cli/client/local_cluster.h"
#include "cli/client/nouns.h"
#include "cli/doctor.h"
#include "common/base/quantity.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"
#include "common/run/find_program.h"
#include "common/run/subprocess.h"

namespace rt {
namespace {

using Grade = Finding::Grade;

constexpr Millis kTimeToReport = 20'000;  // The probe names what hangs so long before its end.
constexpr size_t kPrintedMax = 300;       // Bytes shown of output that is not a report.
constexpr char kRepair[] =
    "take it out of use or repair it; rt doctor --gpu ends its quarantine once it is well";

// Returns the JSON that one of rt's programs printed, also when the program failed.
absl::StatusOr<Json> AskProgram(const std::string& name, const std::vector<std::string>& flags,
                                Millis most) {
  RT_ASSIGN_OR_RETURN(const std::string binaries, BinaryDirectory());
  std::string path = binaries + "/" + name;
  if (name == "rt-probe") {
    RT_ASSIGN_OR_RETURN(path, ProbeProgram(binaries));
  }
  if (!Exists(path)) return NotFound(name + " is not installed here");
  std::vector<std::string> argv = {path};
  argv.insert(argv.end(), flags.begin(), flags.end());
  RT_ASSIGN_OR_RETURN(const ProgramResult done, RunProgram({.argv = argv}, "", most));
  absl::StatusOr<Json> told = Json::Parse(done.output);
  if (told.ok() && told->is_object()) return told;
  std::string printed(Trim(done.output));
  if (printed.size() > kPrintedMax) printed = printed.substr(0, kPrintedMax) + "...";
  return absl::InternalError(ToAbsl(name + " printed no report: " + ToString(done.exit) +
                                    (printed.empty() ? "" : ": " + printed)));
}

std::string RateText(const Json& one, const char* key, const char* unit) {
  const Json* value = one.Find(key);
  if (value == nullptr || !value->is_number()) return std::string("unknown ") + unit;
  return FormatDouble(std::round(value->AsDouble() * 10) / 10) + " " + unit;
}

std::string RatesOf(const Json& one) {
  return BytesText(one.GetInt("tested_bytes")) + " of memory are well, copies at " +
         RateText(one, "copy_gbps", "GB/s") + ", products at " +
         RateText(one, "matmul_tflops", "TFLOP/s") + ", host to gpu " +
         RateText(one, "to_device_gbps", "GB/s") + ", back " +
         RateText(one, "to_host_gbps", "GB/s");
}

Finding JudgeProbed(const Json& one) {
  const std::string fault = one.GetString("fault");
  const std::string name = "gpu " + std::to_string(one.GetInt("index")) + " (" +
                           one.GetString("name") + ", " + one.GetString("uuid") + ")";
  if (!fault.empty()) return {"gpu-probe", Grade::kFail, name + ": " + fault, kRepair};
  return {"gpu-probe", Grade::kOk, name + ": " + RatesOf(one), ""};
}

Finding JudgeAllReduce(const Json& all) {
  const std::string fault = all.GetString("fault"), note = all.GetString("note");
  if (!fault.empty()) return {"gpu-all-reduce", Grade::kFail, fault, "run rt-probe again"};
  if (all.GetString("library").empty())
    return {"gpu-all-reduce", Grade::kWarn, note,
            "without NCCL only the gpus themselves are tested"};
  return {"gpu-all-reduce", Grade::kOk,
          all.GetString("library") + ", " +
              (note.empty() ? RateText(all, "bus_gbps", "GB/s of bus bandwidth") : note),
          ""};
}

std::string NameOfGpu(const Json& node, const Json& gpu) {
  return "gpu " + std::to_string(gpu.GetInt("index")) + " of " + node.GetString("name");
}

// The head's answer for one gpu that is quarantined and that the probe found well.
Finding EndQuarantine(HeadClient& client, const Json& node, const Json& gpu,
                      const std::string& found) {
  const std::string which = NameOfGpu(node, gpu);
  v1::UndrainNodeRequest request;
  request.set_node(static_cast<uint64_t>(node.GetInt("id")));
  request.set_gpu(gpu.GetString("uuid"));
  request.set_probe("rt-probe: " + found);
  const absl::Status ended =
      client.Call<v1::ClusterService>(&v1::ClusterService::Stub::UndrainNode, request).status();
  if (ended.ok())
    return {"gpu-quarantine", Grade::kOk,
            "the quarantine of " + which + " (" + gpu.GetString("reason") + ") ends: it is well",
            ""};
  const std::string hint = HintOf(ended);
  return {"gpu-quarantine", Grade::kWarn, which + " stays quarantined: " + MessageOf(ended),
          hint.empty() ? "rt node undrain NODE --gpu INDEX ends it" : hint};
}

// The head's answer for one gpu that the probe found at fault.
Finding BeginQuarantine(HeadClient& client, const Json& node, const Json& gpu,
                        const std::string& fault) {
  const std::string which = NameOfGpu(node, gpu);
  v1::QuarantineGpuRequest request;
  request.set_node(static_cast<uint64_t>(node.GetInt("id")));
  request.set_gpu(gpu.GetString("uuid"));
  request.set_what("rt doctor --gpu: " + fault);
  const absl::Status begun =
      client.Call<v1::ClusterService>(&v1::ClusterService::Stub::QuarantineGpu, request).status();
  if (begun.ok())
    return {"gpu-quarantine", Grade::kFail, which + " is quarantined now: it takes no more work",
            kRepair};
  const std::string hint = HintOf(begun);
  return {"gpu-quarantine", Grade::kWarn,
          which + " is not quarantined: " + std::string(MessageOf(begun)),
          hint.empty() ? "rt node drain " + node.GetString("name") + " keeps work from it" : hint};
}

Finding LeaveInUse(const Json& node, const Json& gpu) {
  return {"gpu-quarantine", Grade::kWarn,
          NameOfGpu(node, gpu) + " is not quarantined: work on it may have disturbed the probe",
          "rt node drain " + node.GetString("name") + ", and then rt doctor --gpu again"};
}

// Calls `judge` with each gpu of the cluster and its node. Calls nothing when no head answers.
void EachGpu(HeadClient& client, const std::function<void(const Json&, const Json&)>& judge) {
  const absl::StatusOr<Json> nodes = ListNodes(client);
  const Json* items = nodes.ok() ? nodes->Find("items") : nullptr;
  if (items == nullptr || !items->is_array()) return;
  for (const Json& node : items->array()) {
    const Json* gpus = node.Find("gpus");
    if (gpus == nullptr || !gpus->is_array()) continue;
    for (const Json& gpu : gpus->array()) judge(node, gpu);
  }
}

bool IsInUse(const Json& gpu) { return gpu.GetDouble("used_fraction", 0) > 0; }

const Json* FindProbed(const Json& report, const std::string& uuid) {
  const Json* devices = report.is_object() ? report.Find("devices") : nullptr;
  if (devices == nullptr || !devices->is_array()) return nullptr;
  for (const Json& one : devices->array())
    if (one.is_object() && one.GetString("uuid") == uuid) return &one;
  return nullptr;
}

}  // namespace

std::string WhatIsWell(const Json& report, const std::string& uuid) {
  const Json* all = report.Find("all_reduce");
  if (all != nullptr && all->is_object() && !all->GetString("fault").empty()) return "";
  const Json* one = FindProbed(report, uuid);
  return one != nullptr && one->GetString("fault").empty() ? RatesOf(*one) : "";
}

std::string FaultOf(const Json& report, const std::string& uuid) {
  const Json* one = FindProbed(report, uuid);
  return one == nullptr ? "" : one->GetString("fault");
}

std::set<std::string> GpusInUse(const Home& home, const std::string& name) {
  std::set<std::string> used;
  const absl::StatusOr<std::unique_ptr<HeadClient>> client = ConnectTo(home, name);
  if (!client.ok()) return used;
  EachGpu(**client, [&](const Json&, const Json& gpu) {
    if (IsInUse(gpu)) used.insert(gpu.GetString("uuid"));
  });
  return used;
}

std::vector<Finding> TellCluster(const Home& home, const std::string& name, const Json& probe,
                                 std::set<std::string> used) {
  std::vector<Finding> findings;
  if (!probe.is_object()) return findings;
  const absl::StatusOr<std::unique_ptr<HeadClient>> client = ConnectTo(home, name);
  if (!client.ok()) return findings;  // ExamineCluster has said why.
  EachGpu(**client, [&](const Json& node, const Json& gpu) {
    const std::string uuid = gpu.GetString("uuid");
    const std::string well = WhatIsWell(probe, uuid), fault = FaultOf(probe, uuid);
    const bool is_quarantined = gpu.GetString("state") == "QUARANTINED";
    if (is_quarantined && !well.empty())
      findings.push_back(EndQuarantine(**client, node, gpu, well));
    if (is_quarantined || fault.empty()) return;
    findings.push_back(used.contains(uuid) || IsInUse(gpu)
                           ? LeaveInUse(node, gpu)
                           : BeginQuarantine(**client, node, gpu, fault));
  });
  return findings;
}

std::vector<Finding> JudgeProbe(const Json& report) {
  std::vector<Finding> findings;
  if (const std::string fault = report.GetString("fault"); !fault.empty())
    findings.push_back(
        {"gpu-probe", Grade::kWarn, fault, "rt doctor says whether there is a driver"});
  if (const Json* devices = report.Find("devices"); devices != nullptr && devices->is_array())
    for (const Json& one : devices->array())
      if (one.is_object()) findings.push_back(JudgeProbed(one));
  if (findings.empty())
    findings.push_back(
        {"gpu-probe", Grade::kWarn, "rt-probe reports no gpu", "rt doctor says whether NVML does"});
  const Json* all = report.Find("all_reduce");
  if (all != nullptr && all->is_object()) findings.push_back(JudgeAllReduce(*all));
  return findings;
}

std::vector<Finding> ExamineGpus(Json& probe, Millis most) {
  std::vector<Finding> findings;
  const auto within = static_cast<double>(std::max(most / 2, most - kTimeToReport)) / 1e3;
  const absl::StatusOr<Json> asked =
      AskProgram("rt-probe", {"--within", FormatDouble(within)}, most);
  probe = asked.ok() ? *asked : Json();
  if (asked.ok()) findings = JudgeProbe(probe);
  else if (absl::IsDeadlineExceeded(asked.status()))
    findings.push_back({"gpu-probe", Grade::kFail,
                        MessageOf(asked.status()) + ": the driver or a gpu hangs", kGpuHangHint});
  else
    findings.push_back({"gpu-probe", Grade::kWarn, MessageOf(asked.status()),
                        "build rt where CMake finds nvcc (CUDA Toolkit)"});
  const absl::StatusOr<Json> suspend = AskProgram("rt-gpu-suspend", {"check"}, most);
  const std::string why = suspend.ok() ? suspend->GetString("error") : MessageOf(suspend.status());
  findings.push_back(
      {"gpu-suspend", why.empty() ? Grade::kOk : Grade::kWarn,
       why.empty() ? "the driver can suspend processes in place" : why,
       why.empty() ? "" : "without it a pause saves a checkpoint and ends the program"});
  return findings;
}

}  // namespace rt
