// `rt status`.
#include <cstdio>

#include "cli/commands/common.h"
#include "common/base/status.h"

namespace rt {

ExitCode RunStatus(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(Json reply, client->Ask<v1::ClusterService>(
                                      &v1::ClusterService::Stub::Status, v1::Empty()));
  if (invocation.output == Output::kJson) PrintJson(reply);
  else std::fputs(RenderStatus(reply, invocation).c_str(), stdout);
  return kExitOk;
}

}  // namespace rt
