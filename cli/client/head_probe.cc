#include "cli/client/head_probe.h"

#include "cli/client/local_cluster.h"
#include "cli/render/unreachable.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "common/rpc/connection.h"
#include "common/run/clock.h"
#include "rt/v1/job.grpc.pb.h"

namespace rt {
namespace {

constexpr auto kFailureMax = std::chrono::milliseconds(500);

// A channel that connects meanwhile, or why there is nothing to connect to.
absl::StatusOr<std::shared_ptr<grpc::Channel>> BeginProbe(const Home& home,
                                                          const std::string& name) {
  if (!home.IsUp(name)) return absl::UnavailableError("the cluster is not up");
  if (home.IsLocal(name) && !LocalCluster(home.ClusterDirectory(name)).HeadIsAlive())
    return absl::UnavailableError("the head is not running");
  RT_ASSIGN_OR_RETURN(Context context, home.Load(name));
  RT_RETURN_IF_ERROR(CheckOwnCertificate(context.credentials));
  auto channel = MakeChannel(context.address, context.credentials, context.cluster_id, true);
  channel->GetState(true);
  return channel;
}

// Why the channel could not connect: a call on it fails at once, and says so.
std::string FailureOf(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kFailureMax);
  v1::JsonReply reply;
  absl::Status status =
      FromGrpc(v1::JobService::NewStub(channel)->Get(&context, v1::JobRef(), &reply));
  if (MessageOf(status).find("certificate verify failed") != std::string::npos)
    return "another head answers there";
  return TransportReason(MessageOf(status));
}

std::string FinishProbe(const std::shared_ptr<grpc::Channel>& channel, Millis until) {
  if (absl::Status connected = AwaitConnection(*channel, until); !connected.ok())
    return MessageOf(connected);
  return channel->GetState(false) == GRPC_CHANNEL_READY ? "" : FailureOf(channel);
}

}  // namespace

std::map<std::string, std::string> ProbeHeads(const Home& home,
                                              const std::vector<std::string>& names) {
  const Millis until = SteadyClock() + kProbeMax;
  std::map<std::string, absl::StatusOr<std::shared_ptr<grpc::Channel>>> begun;
  for (const std::string& name : names) begun.emplace(name, BeginProbe(home, name));
  std::map<std::string, std::string> answers;
  for (const auto& [name, channel] : begun)
    answers[name] = channel.ok() ? FinishProbe(*channel, until) : MessageOf(channel.status());
  return answers;
}

}  // namespace rt
