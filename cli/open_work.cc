#include "cli/open_work.h"

#include "cli/client/nouns.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

constexpr Millis kStopMax = 60'000;  // The head answers within 20 s.

void Append(const Json& list, bool is_job, std::vector<WorkItem>& work) {
  const Json* items = list.Find("items");
  if (items == nullptr || !items->is_array()) return;
  for (const Json& item : items->array())
    work.push_back({.id = static_cast<uint64_t>(item.GetInt("id")),
                    .is_job = is_job,
                    .is_open = !IsTerminal(item.GetString("state")),
                    .name = item.GetString("name"),
                    .state = item.GetString("state"),
                    .job = static_cast<uint64_t>(item.GetInt("job_id"))});
}

}  // namespace

absl::StatusOr<std::vector<WorkItem>> ListWork(HeadClient& client) {
  RT_ASSIGN_OR_RETURN(Json jobs, ListJobs(client));
  RT_ASSIGN_OR_RETURN(Json experiments, ListExperiments(client));
  std::vector<WorkItem> work;
  Append(experiments, false, work);
  Append(jobs, true, work);
  return work;
}

std::string ToText(const WorkItem& item) {
  return (item.is_job ? "job " : "experiment ") + std::to_string(item.id) + " (" +
         EscapeControl(item.name) + ")";
}

absl::Status StopWork(HeadClient& client) {
  v1::ShutdownRequest request;
  request.set_stay(true);
  return client.Call<v1::ClusterService>(&v1::ClusterService::Stub::Shutdown, request, kStopMax)
      .status();
}

}  // namespace rt
