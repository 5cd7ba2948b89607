// `rt status`.
#include <cstdio>

#include "cli/commands/common.h"
#include "common/base/status.h"

namespace rt {

namespace {

// Asks for the list where Status left some of it out.
template <class Service>
absl::Status Complete(HeadClient& client, const char* key,
                      grpc::Status (Service::Stub::*list)(grpc::ClientContext*, const v1::Empty&,
                                                          v1::JsonReply*),
                      Json& status) {
  const std::string left_out = std::string(key) + "_left_out";
  if (status.GetInt(left_out) == 0) return absl::OkStatus();
  RT_ASSIGN_OR_RETURN(Json all, client.Ask<Service>(list, v1::Empty()));
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
    RT_RETURN_IF_ERROR(Complete<v1::ExperimentService>(
        *client, "experiments", &v1::ExperimentService::Stub::List, reply));
    RT_RETURN_IF_ERROR(
        Complete<v1::JobService>(*client, "jobs", &v1::JobService::Stub::List, reply));
  }
  if (invocation.output == Output::kJson) PrintJson(reply);
  else std::fputs(RenderStatus(reply, invocation).c_str(), stdout);
  return kExitOk;
}

}  // namespace rt
