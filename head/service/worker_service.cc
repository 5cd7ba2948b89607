#include <chrono>
#include <set>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/cas/digest.h"
#include "common/run/clock.h"
#include "common/run/failpoint.h"
#include "head/core/owner_policy.h"
#include "head/service/driver_ops.h"
#include "head/service/log_sender.h"
#include "head/service/services.h"
#include "head/service/sync_calls.h"
#include "head/service/translate.h"
#include "rt/v1/worker.grpc.pb.h"

namespace rt {
namespace {

using Context = grpc::CallbackServerContext;
using Reactor = grpc::ServerUnaryReactor;

// Whether `fence` is a live rank on this node; its attempt, or FailedPrecondition.
absl::Status CheckLive(const Core& core, const Fence& fence, NodeId node) {
  const Attempt* attempt = FindLive(core.world.state, fence.attempt);
  if (attempt != nullptr)
    for (const Member& member : attempt->members)
      if (member.rank == fence.rank && member.node == node) return absl::OkStatus();
  return absl::FailedPreconditionError(ToString(fence) + " is not the current run on this node");
}

absl::Status CheckPeer(const std::string& address) {
  return CheckSize("an address", address.size(), limits::kNameBytesMax);
}

// Those that others may be sent to.
std::set<NodeId> ServingNodes(const Core& core) {
  std::set<NodeId> nodes;
  for (const auto& [id, node] : core.world.state.nodes) {
    auto soft = core.soft.nodes.find(id);
    const bool heard = soft != core.soft.nodes.end() && soft->second.seen &&
                       soft->second.connected &&
                       core.soft.last_step_at - soft->second.last_seen_at <= limits::kSuspectAfter;
    if (heard && node.counts()) nodes.insert(id);
  }
  return nodes;
}

void FillSource(const PeerBook::Source& from, v1::Source* wire) {
  wire->set_node(from.node.value);
  wire->set_address(from.address);
}

class WorkerService final : public v1::WorkerService::CallbackService {
 public:
  explicit WorkerService(Edge& edge)
      : edge_(edge), syncs_(edge), tools_{edge.operations, edge.blobs, edge.io} {}

  Reactor* Sync(Context* context, const v1::SyncRequest* request, v1::SyncReply* reply) override {
    return syncs_.Start(context, *request, reply);
  }
  Reactor* Report(Context* context, const v1::ReportRequest* request,
                  v1::ReportReply* reply) override {
    return AsNode(context, "WorkerService/Report", [&](NodeId node, Reactor* reactor) {
      auto report = ReportFromWire(*request, node);
      if (!report.ok()) return reactor->Finish(ToGrpc(report.status()));
      edge_.loop.Post(std::move(*report),
                      [reactor, reply](const absl::Status& status, const Answer& answer) {
                        FillReply(answer.verdicts, reply);
                        reactor->Finish(ToGrpc(status));
                      });
    });
  }
  Reactor* CommitCheckpoint(Context* context, const v1::CommitCheckpointRequest* request,
                            v1::CommitCheckpointReply* reply) override {
    return AsNode(context, "WorkerService/CommitCheckpoint", [&](NodeId node, Reactor* reactor) {
      auto commit = CommitFromWire(*request, node);
      if (!commit.ok()) return reactor->Finish(ToGrpc(commit.status()));
      auto post = [this, reply, reactor, commit = *commit](const absl::Status& live) {
        if (!live.ok()) return reactor->Finish(ToGrpc(live));
        ReachFailpoint("head.checkpoint.before_commit");
        edge_.loop.Post(commit, [reactor, reply](const absl::Status& status, const Answer& answer) {
          ReachFailpoint("head.checkpoint.after_commit");
          reply->set_checkpoint(answer.checkpoint);
          reactor->Finish(ToGrpc(status));
        });
      };
      IfLive(commit->fence, node, std::move(post), request->seen_epoch());
    });
  }
  Reactor* FindSources(Context* context, const v1::FindSourcesRequest* request,
                       v1::FindSourcesReply* reply) override {
    return AsNode(context, "WorkerService/FindSources", [&](NodeId node, Reactor* reactor) {
      absl::Status checked = CheckPeer(request->address());
      if (checked.ok() && !IsDigest(request->manifest())) checked = Invalid("not a digest");
      if (!checked.ok()) return reactor->Finish(ToGrpc(checked));
      auto fence = std::make_shared<absl::StatusOr<Fence>>(absl::NotFoundError("none"));
      if (request->has_fence()) *fence = FromWire(request->fence());
      auto alive = std::make_shared<std::set<NodeId>>();
      auto replicas = std::make_shared<ReplicaNodes>();
      edge_.loop.Query(
          [alive, replicas, fence](const Core& core) {
            *alive = ServingNodes(core);
            if (fence->ok()) *replicas = ReplicasFor(core.world.state, (*fence)->attempt);
          },
          [=, this](const absl::Status& read) {
            const PeerBook::Ask ask{node, request->address(), request->manifest(), replicas->nodes};
            std::set<NodeId> missing(replicas->nodes.begin(), replicas->nodes.end());
            missing.erase(node);
            for (const auto& found : edge_.book.Find(ask, *alive, SteadyClock())) {
              FillSource(found, reply->add_sources());
              missing.erase(found.node);
            }
            reply->set_lost(replicas->lost);
            reply->set_all(missing.empty());
            reactor->Finish(ToGrpc(read));
          });
    });
  }
  Reactor* KeepCheckpoint(Context* context, const v1::KeepCheckpointRequest* request,
                          v1::KeepCheckpointReply* reply) override {
    return AsNode(context, "WorkerService/KeepCheckpoint", [&](NodeId node, Reactor* reactor) {
      using ReplicaStatus = input::RenewReplica::ReplicaStatus;
      auto owner = FromWire(request->owner());
      absl::Status checked = owner.status();
      if (checked.ok() && !IsDigest(request->manifest())) checked = Invalid("not a digest");
      if (checked.ok() && request->news() > static_cast<uint32_t>(ReplicaStatus::kGone))
        checked = Invalid("no such status of a replica");
      if (!checked.ok()) return reactor->Finish(ToGrpc(checked));
      edge_.loop.Post(
          input::RenewReplica{node, *owner, request->manifest(),
                              static_cast<ReplicaStatus>(request->news()), request->seen_epoch(),
                              request->early(), request->incarnation(), request->attempt(),
                              request->row(), std::max(1u, request->generation())},
          [reactor, reply](const absl::Status& status, const Answer& answer) {
            reply->set_needed(answer.needed);
            reply->set_push(answer.push);
            reply->set_let_go(answer.release);
            reply->set_may_come(!answer.needed && !answer.release);
            reactor->Finish(ToGrpc(status));
          });
    });
  }
  Reactor* FindHolder(Context* context, const v1::FindHolderRequest* request,
                      v1::FindHolderReply* reply) override {
    return AsNode(context, "WorkerService/FindHolder", [&](NodeId node, Reactor* reactor) {
      absl::Status checked = CheckPeer(request->address());
      if (!checked.ok()) return reactor->Finish(ToGrpc(checked));
      auto alive = std::make_shared<std::set<NodeId>>();
      edge_.loop.Query(
          [alive](const Core& core) {
            *alive = ServingNodes(core);
            const auto& nodes = core.world.state.nodes;
            std::erase_if(*alive, [&](NodeId id) { return nodes.at(id).draining; });
          },
          [=, this](const absl::Status& read) {
            const auto found =
                edge_.book.FindHolder(node, request->address(), *alive, SteadyClock());
            if (found) FillSource(*found, reply->mutable_holder());
            reactor->Finish(ToGrpc(read));
          });
    });
  }
  Reactor* KeepOutputs(Context* context, const v1::KeepOutputsRequest* request,
                       v1::Empty*) override {
    return AsNode(context, "WorkerService/KeepOutputs", [&](NodeId node, Reactor* reactor) {
      auto fence = FromWire(request->fence());
      auto outputs = OutputsFromWire(*request);
      if (!fence.ok() || !outputs.ok())
        return reactor->Finish(ToGrpc(fence.ok() ? outputs.status() : fence.status()));
      ReachFailpoint("head.outputs.before_kept");
      edge_.loop.Post(
          input::KeepOutputs{node, *fence, *std::move(outputs), request->seen_epoch()},
          [reactor](const absl::Status& status, const Answer&) {
            ReachFailpoint("head.outputs.after_kept");
            reactor->Finish(ToGrpc(status));
          });
    });
  }
  Reactor* CheckMember(Context* context, const v1::CheckMemberRequest* request,
                       v1::CheckMemberReply* reply) override {
    return AsNode(context, "WorkerService/CheckMember", [&](NodeId, Reactor* reactor) {
      const Members::Standing standing = edge_.loop.members().Of(NodeId{request->node()});
      reply->set_gone(standing == Members::Standing::kGone);
      reactor->Finish(grpc::Status::OK);
    });
  }
  Reactor* FindPeer(Context* context, const v1::FindPeerRequest* request,
                    v1::FindPeerReply* reply) override {
    return AsNode(context, "WorkerService/FindPeer", [&](NodeId, Reactor* reactor) {
      const auto found = edge_.book.AddressOf(NodeId{request->node()});
      if (found) FillSource(*found, reply->mutable_peer());
      reactor->Finish(found ? grpc::Status::OK
                            : ToGrpc(absl::NotFoundError("that node serves no others")));
    });
  }
  Reactor* HoldTrees(Context* context, const v1::HoldTreesRequest* request, v1::Empty*) override {
    return AsNode(context, "WorkerService/HoldTrees", [&](NodeId node, Reactor* reactor) {
      absl::Status checked = CheckPeer(request->address());
      if (static_cast<size_t>(std::max(request->whole_size(), request->fetching_size())) >
          limits::kAnnouncedTreesPerNode)
        checked = Invalid("at most 1000 trees in one call");
      if (!checked.ok()) return reactor->Finish(ToGrpc(checked));
      PeerBook::Announced announced{.address = request->address()};
      std::copy_if(request->whole().begin(), request->whole().end(),
                   std::back_inserter(announced.whole), IsDigest);
      std::copy_if(request->fetching().begin(), request->fetching().end(),
                   std::back_inserter(announced.fetching), IsDigest);
      for (uint64_t failed : request->failed()) announced.failed.push_back(NodeId{failed});
      edge_.book.Announce(node, announced, SteadyClock());
      reactor->Finish(grpc::Status::OK);
    });
  }
  grpc::ServerReadReactor<v1::LogPiece>* SendLog(Context* context, v1::Empty*) override {
    absl::StatusOr<Identity> who = Admit(edge_, *context, "WorkerService/SendLog");
    absl::StatusOr<NodeId> node = who.ok() ? NodeOf(*who) : who.status();
    return StartLogSender(edge_.logs, node);
  }
  Reactor* DriverCall(Context* context, const v1::DriverCallRequest* request,
                      v1::JsonReply* reply) override {
    return AsNode(context, "WorkerService/DriverCall", [&](NodeId node, Reactor* reactor) {
      auto fence = FromWire(request->fence());
      if (!fence.ok()) return reactor->Finish(ToGrpc(fence.status()));
      auto driver = std::make_shared<Driver>();
      driver->opener = fence->attempt;
      if (fence->attempt.owner.is_job()) driver->job = fence->attempt.owner.job();
      auto checked = std::make_shared<absl::Status>();
      edge_.loop.Query(
          [driver, checked, fence = *fence, node](const Core& core) {
            *checked = CheckLive(core, fence, node);
            if (checked->ok()) driver->owner = UserOf(core.world.state, fence.attempt.owner);
          },
          [this, driver, checked, request, reply, reactor](const absl::Status& read) {
            absl::Status status = read.ok() ? *checked : read;
            if (!status.ok()) return AnswerJsonTo(reactor, reply)(DriverAnswer(status));
            RunDriverOp(tools_, *driver, request->json(), AnswerJsonTo(reactor, reply));
          });
    });
  }

 private:
  template <class Start>
  Reactor* AsNode(Context* context, std::string_view method, Start start) {
    return Unary(edge_, context, method, [&](const Identity& who, Reactor* reactor) {
      absl::StatusOr<NodeId> node = NodeOf(who);
      if (!node.ok()) return reactor->Finish(ToGrpc(node.status()));
      start(*node, reactor);
    });
  }
  void IfLive(const Fence& fence, NodeId node, StatusDone done, uint64_t seen_epoch = 0) {
    auto checked = std::make_shared<absl::Status>();
    edge_.loop.Query(
        [checked, fence, node, seen_epoch](const Core& core) {
          *checked = CheckNewest(core, node, seen_epoch);
          if (checked->ok()) *checked = CheckLive(core, fence, node);
        },
        [checked, done = std::move(done)](const absl::Status& read) {
          done(read.ok() ? *checked : read);
        });
  }

  Edge& edge_;
  SyncCalls syncs_;
  DriverTools tools_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeWorkerService(Edge& edge) {
  return std::make_unique<WorkerService>(edge);
}

}  // namespace rt
