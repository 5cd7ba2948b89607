// `rt node show|logs|drain|undrain|forget`.
#include <cmath>

#include "cli/commands/acting.h"
#include "cli/follow.h"
#include "cli/render/gpus.h"
#include "cli/render/why.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

// For people: "trial 2/0 (attempt 1)" in place of the names that the daemons use, and a gpu in a
// line.
void MakeReadable(Json& node) {
  Json* attempts = node.Find("attempts");
  if (attempts != nullptr && attempts->is_array())
    for (Json& attempt : attempts->array()) attempt = Json(RunText(CellText(&attempt)));
  Json* gpus = node.Find("gpus");
  if (gpus != nullptr && gpus->is_array())
    for (Json& gpu : gpus->array()) gpu = Json(GpuText(gpu));
}

}  // namespace

ExitCode RunNodeShow(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  const std::string selector = SelectorOf(invocation);
  auto chosen = ChooseNodes(*client, selector);
  std::vector<Json> items;
  if (!chosen.ok()) {  // A node that was requested has a name and no number yet.
    auto requested = GetNode(*client, selector);
    if (!requested.ok()) return chosen.status();
    items.push_back(*std::move(requested));
    return PrintItems(invocation, Noun::kNode, std::move(items));
  }
  for (uint64_t id : *chosen) {
    RT_ASSIGN_OR_RETURN(Json item, GetNode(*client, std::to_string(id)));
    if (invocation.output == Output::kTable) MakeReadable(item);
    items.push_back(std::move(item));
  }
  return PrintItems(invocation, Noun::kNode, std::move(items));
}

ExitCode RunNodeLogs(const Invocation& invocation) {
  RT_RETURN_IF_ERROR(CheckSelectsOne(invocation, "logs are of one node", "rt node logs worker-1"));
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(std::vector<uint64_t> chosen, ChooseNodes(*client, SelectorOf(invocation)));
  if (chosen.size() != 1) return Invalid("logs are of one node", "rt node logs worker-1");
  std::atomic<bool> finished = !invocation.follow;
  RT_RETURN_IF_ERROR(FollowLog(*client, {.node = {chosen[0]},
                                         .stream = "stdout",
                                         .follow = invocation.follow,
                                         .tail_lines = invocation.tail,
                                         .fd = 1}, finished));
  return kExitOk;
}

ExitCode RunNodeDrain(const Invocation& invocation) {
  Millis deadline = 0;
  if (!invocation.deadline.empty()) {
    std::optional<double> seconds = ParseDurationSeconds(invocation.deadline);
    if (!seconds || *seconds <= 0)
      return Invalid("--deadline: '" + invocation.deadline + "' is not a duration",
                     "--deadline 2m");
    deadline = static_cast<Millis>(std::ceil(*seconds * 1'000));
  }
  const Action drain{"drain", "rt node drain worker-1",
                     "drains: its trials save and continue elsewhere"};
  return ActOnNodes(invocation, drain, [&](HeadClient& client, uint64_t id) {
    v1::DrainNodeRequest request;
    request.set_node(id);
    request.set_deadline_ms(deadline);
    request.set_reason(invocation.reason);
    return client.Call<v1::ClusterService>(&v1::ClusterService::Stub::DrainNode, request).status();
  });
}

ExitCode RunNodeUndrain(const Invocation& invocation) {
  std::string what = "takes work again";
  if (!invocation.gpu.empty()) what = "is told that its gpu may take work again";
  if (invocation.links) what = "may use its slow links again";
  const Action undrain{"undrain", "rt node undrain worker-1", what.c_str()};
  return ActOnNodes(invocation, undrain, [&](HeadClient& client, uint64_t id) {
    v1::UndrainNodeRequest request;
    request.set_node(id);
    request.set_gpu(invocation.gpu);
    request.set_links(invocation.links);
    return client.Call<v1::ClusterService>(&v1::ClusterService::Stub::UndrainNode, request)
        .status();
  });
}

ExitCode RunNodeForget(const Invocation& invocation) {
  const Action forget{"forget", "rt node forget worker-1", "left the cluster for good"};
  return ActOnNodes(invocation, forget, [&](HeadClient& client, uint64_t id) {
    v1::ForgetNodeRequest request;
    request.set_node(id);
    request.set_reason(invocation.reason);
    return client.Call<v1::ClusterService>(&v1::ClusterService::Stub::ForgetNode, request).status();
  });
}

}  // namespace rt
