#include "cli/render/job_end.h"

#include "common/base/strings.h"

namespace rt {
namespace {

std::string HowItEnded(const Json& job) {
  const Json* code = job.Find("exit_code");
  const std::string reason = job.GetString("reason");
  const std::string why = reason.empty() ? "" : ": " + reason;
  if (job.GetString("state") == "STOPPED") return "was stopped" + why;
  if (const int64_t signal = job.GetInt("signal"); signal > 0)
    return "was killed by signal " + std::to_string(signal);
  if (code != nullptr && code->is_int() && code->AsInt() != 0)
    return "exited with code " + code->Dump();
  return job.GetString("state") == "FAILED" ? "failed" + why : "";
}

}  // namespace

std::string JobEndText(const Json& job, const std::vector<uint64_t>& open) {
  const std::string how = HowItEnded(job);
  const Json* code = job.Find("exit_code");
  const bool exited = job.GetInt("signal") == 0 && code != nullptr && code->is_int();
  if (how.empty() || (exited && open.empty() && job.GetString("state") != "STOPPED")) return "";
  std::string text = "job " + std::to_string(job.GetInt("id")) + " " + how;
  if (open.empty()) return text;
  std::vector<std::string> ids;
  ids.reserve(open.size());
  for (uint64_t id : open) ids.push_back(std::to_string(id));
  text += open.size() == 1 ? "; experiment " + ids[0] + " continues"
                           : "; experiments " + Join(ids, ", ") + " continue";
  return text + ": rt watch " + ids[0] + ", rt exp stop " + Join(ids, ",") + ", rt exp download " +
         ids[0];
}

}  // namespace rt
