// `rt doctor --gpu`: what rt-probe finds on this machine's gpus, and whether its driver can suspend
// processes.
#include <cmath>

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

constexpr Millis kProbeMax = 120'000;  // A probe takes seconds; a gpu that hangs never answers.
constexpr char kClear[] = "rt node undrain NODE --gpu INDEX ends a quarantine once it is well";

// Returns the JSON that one of rt's programs printed, also when the program failed.
absl::StatusOr<Json> AskProgram(const std::string& name, const std::vector<std::string>& flags) {
  RT_ASSIGN_OR_RETURN(const std::string binaries, BinaryDirectory());
  const std::string path = binaries + "/" + name;
  if (!Exists(path)) return NotFound(name + " is not installed here");
  std::vector<std::string> argv = {path};
  argv.insert(argv.end(), flags.begin(), flags.end());
  RT_ASSIGN_OR_RETURN(const ProgramResult done, RunProgram({.argv = argv}, "", kProbeMax));
  absl::StatusOr<Json> told = Json::Parse(done.output);
  if (told.ok() && told->is_object()) return told;
  return absl::InternalError(ToAbsl(name + ": " + ToString(done.exit) + ": " + done.output));
}

std::string RateText(const Json& one, const char* key, const char* unit) {
  const Json* value = one.Find(key);
  if (value == nullptr || !value->is_number()) return std::string("unknown ") + unit;
  return FormatDouble(std::round(value->AsDouble() * 10) / 10) + " " + unit;
}

Finding JudgeProbed(const Json& one) {
  const std::string fault = one.GetString("fault");
  const std::string name = "gpu " + std::to_string(one.GetInt("index")) + " (" +
                           one.GetString("name") + ", " + one.GetString("uuid") + ")";
  if (!fault.empty()) return {"gpu-probe", Grade::kFail, name + ": " + fault, kClear};
  return {"gpu-probe", Grade::kOk,
          name + ": " + BytesText(one.GetInt("tested_bytes")) + " of memory are well, copies at " +
              RateText(one, "copy_gbps", "GB/s") + ", products at " +
              RateText(one, "matmul_tflops", "TFLOP/s") + ", host to gpu " +
              RateText(one, "to_device_gbps", "GB/s") + ", back " +
              RateText(one, "to_host_gbps", "GB/s"),
          ""};
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

}  // namespace

std::vector<Finding> JudgeProbe(const Json& report) {
  std::vector<Finding> findings;
  if (const std::string fault = report.GetString("fault"); !fault.empty())
    findings.push_back(
        {"gpu-probe", Grade::kWarn, fault, "rt doctor says whether there is a driver"});
  if (const Json* devices = report.Find("devices"); devices != nullptr && devices->is_array())
    for (const Json& one : devices->array()) findings.push_back(JudgeProbed(one));
  const Json* all = report.Find("all_reduce");
  if (all != nullptr && all->is_object()) findings.push_back(JudgeAllReduce(*all));
  return findings;
}

std::vector<Finding> ExamineGpus() {
  std::vector<Finding> findings;
  const absl::StatusOr<Json> probe = AskProgram("rt-probe", {});
  if (probe.ok()) findings = JudgeProbe(*probe);
  else
    findings.push_back({"gpu-probe", Grade::kWarn, MessageOf(probe.status()),
                        "build rt where CMake finds nvcc (CUDA Toolkit)"});
  const absl::StatusOr<Json> suspend = AskProgram("rt-gpu-suspend", {"check"});
  const std::string why = suspend.ok() ? suspend->GetString("error") : MessageOf(suspend.status());
  findings.push_back(
      {"gpu-suspend", why.empty() ? Grade::kOk : Grade::kWarn,
       why.empty() ? "the driver can suspend processes in place" : why,
       why.empty() ? "" : "without it a pause saves a checkpoint and ends the program"});
  return findings;
}

}  // namespace rt
