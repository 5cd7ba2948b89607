// `rt status`.
#include <cstdio>

#include "cli/commands/common.h"
#include "common/base/status.h"

namespace rt {

namespace {

// Asks for the list where Status left some of it out.
absl::Status Complete(HeadClient& client, const char* key,
                      absl::StatusOr<Json> (*list)(HeadClient&), Json& status) {
  const std::string left_out = std::string(key) + "_left_out";
  if (status.GetInt(left_out) == 0) return absl::OkStatus();
  RT_ASSIGN_OR_RETURN(Json all, list(client));
  status.Set(key, std::move(all["items"]));
  status.Set(left_out, 0);
  return absl::OkStatus();
}

}  // namespace

ExitCode RunStatus(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(Json reply, client->Ask<v1::ClusterService>(
                                      &v1::ClusterService::Stub::Status, v1::Empty()));
  if (invocation.all) {
    RT_RETURN_IF_ERROR(Complete(*client, "experiments", ListExperiments, reply));
    RT_RETURN_IF_ERROR(Complete(*client, "jobs", ListJobs, reply));
  }
  if (invocation.output == Output::kJson) PrintJson(reply);
  else std::fputs(RenderStatus(reply, invocation).c_str(), stdout);
  return kExitOk;
}

}  // namespace rt
