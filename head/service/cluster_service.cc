#include "common/base/limits.h"
#include "common/base/status.h"
#include "head/service/services.h"
#include "head/service/shutdown.h"
#include "head/service/tokens.h"
#include "head/service/translate.h"
#include "rt/v1/cluster.grpc.pb.h"

namespace rt {
namespace {

using Context = grpc::CallbackServerContext;
using Reactor = grpc::ServerUnaryReactor;

class ClusterService final : public v1::ClusterService::CallbackService {
 public:
  explicit ClusterService(Edge& edge) : edge_(edge) {}

  Reactor* Status(Context* context, const v1::Empty*, v1::JsonReply* reply) override {
    return Unary(edge_, context, "ClusterService/Status", [&](auto&, Reactor* reactor) {
      edge_.operations.Ask(
          [](const Core& core, const HeadFacts& facts) -> absl::StatusOr<Json> {
            return StatusView(core, facts);
          },
          AnswerJsonTo(reactor, reply));
    });
  }
  Reactor* ListNodes(Context* context, const v1::Empty*, v1::JsonReply* reply) override {
    return Unary(edge_, context, "ClusterService/ListNodes", [&](auto&, Reactor* reactor) {
      edge_.operations.Ask(
          [](const Core& core, const HeadFacts& facts) -> absl::StatusOr<Json> {
            return NodeListView(core, facts);
          },
          AnswerJsonTo(reactor, reply));
    });
  }
  Reactor* ListNodePage(Context* context, const v1::ListRequest* request,
                        v1::JsonReply* reply) override {
    return AnswerPage(edge_, context, "ClusterService/ListNodePage", request, reply, NodePageView);
  }
  Reactor* GetNode(Context* context, const v1::GetNodeRequest* request,
                   v1::JsonReply* reply) override {
    return Unary(edge_, context, "ClusterService/GetNode", [&](auto&, Reactor* reactor) {
      edge_.operations.GetNode(request->name_or_id(), AnswerJsonTo(reactor, reply));
    });
  }
  Reactor* DrainNode(Context* context, const v1::DrainNodeRequest* request, v1::Empty*) override {
    return Unary(edge_, context, "ClusterService/DrainNode", [&](auto& who, Reactor* reactor) {
      absl::Status checked =
          CheckSize("reason", request->reason().size(), limits::kReasonBytesMax);
      if (request->deadline_ms() < 0 || request->deadline_ms() > limits::kDrainMax)
        checked = Invalid("the deadline must lie within 30 days", "--deadline 2m");
      if (!checked.ok()) return reactor->Finish(ToGrpc(checked));
      edge_.operations.Change(input::DrainNode{{request->node()},
                                               ReasonOr(request->reason(), "drained by ", who),
                                               request->deadline_ms()},
                              AnswerTo(reactor));
    });
  }
  Reactor* UndrainNode(Context* context, const v1::UndrainNodeRequest* request,
                       v1::Empty*) override {
    return Unary(edge_, context, "ClusterService/UndrainNode", [&](auto&, Reactor* reactor) {
      absl::Status checked = CheckSize("gpu", request->gpu().size(), limits::kNameBytesMax);
      if (checked.ok())
        checked = CheckSize("probe", request->probe().size(), limits::kReasonBytesMax);
      if (!checked.ok()) return reactor->Finish(ToGrpc(checked));
      edge_.operations.Change(
          input::UndrainNode{{request->node()}, request->gpu(), request->probe(), request->links()},
          AnswerTo(reactor));
    });
  }
  Reactor* QuarantineGpu(Context* context, const v1::QuarantineGpuRequest* request,
                         v1::Empty*) override {
    return Unary(edge_, context, "ClusterService/QuarantineGpu", [&](auto&, Reactor* reactor) {
      absl::Status checked = CheckSize("gpu", request->gpu().size(), limits::kNameBytesMax);
      if (checked.ok())
        checked = CheckSize("what", request->what().size(), limits::kReasonBytesMax);
      if (checked.ok() && request->what().empty())
        checked = Invalid("a quarantine needs what the probe found");
      if (!checked.ok()) return reactor->Finish(ToGrpc(checked));
      edge_.operations.Change(
          input::QuarantineGpu{{request->node()}, request->gpu(), request->what()},
          AnswerTo(reactor));
    });
  }
  Reactor* ForgetNode(Context* context, const v1::ForgetNodeRequest* request, v1::Empty*) override {
    return Unary(edge_, context, "ClusterService/ForgetNode", [&](auto& who, Reactor* reactor) {
      absl::Status checked =
          CheckSize("reason", request->reason().size(), limits::kReasonBytesMax);
      if (!checked.ok()) return reactor->Finish(ToGrpc(checked));
      edge_.operations.Change(
          input::ForgetNode{{request->node()}, ReasonOr(request->reason(), "forgotten by ", who)},
          AnswerTo(reactor));
    });
  }
  Reactor* CreateToken(Context* context, const v1::CreateTokenRequest* request,
                       v1::CreateTokenReply* reply) override {
    return Unary(edge_, context, "ClusterService/CreateToken", [&](auto&, Reactor* reactor) {
      rt::CreateToken(edge_.loop, edge_.io, edge_.settings,
                      {request->role(), request->ttl_ms(), request->pool(), request->name()},
                      [reactor, reply](absl::StatusOr<NewToken> token) {
                        if (token.ok()) {
                          reply->set_id(token->id);
                          reply->set_name(token->name);
                          reply->set_token(token->text);
                        }
                        reactor->Finish(ToGrpc(token.status()));
                      });
    });
  }
  Reactor* ListTokens(Context* context, const v1::Empty*, v1::JsonReply* reply) override {
    return Unary(edge_, context, "ClusterService/ListTokens", [&](auto&, Reactor* reactor) {
      edge_.operations.Ask(
          [](const Core& core, const HeadFacts& facts) -> absl::StatusOr<Json> {
            return TokenListView(core, facts);
          },
          AnswerJsonTo(reactor, reply));
    });
  }
  Reactor* RevokeToken(Context* context, const v1::RevokeTokenRequest* request,
                       v1::Empty*) override {
    return Unary(edge_, context, "ClusterService/RevokeToken", [&](auto&, Reactor* reactor) {
      edge_.loop.Post(input::RevokeToken{request->id()},
                      [reactor](const absl::Status& status, const Answer&) {
                        reactor->Finish(ToGrpc(status));
                      });
    });
  }
  Reactor* Join(Context* context, const v1::JoinRequest* request, v1::JoinReply* reply) override {
    return Unary(edge_, context, "ClusterService/Join", [&](auto& who, Reactor* reactor) {
      RedeemToken(edge_.loop, edge_.io, edge_.settings,
                  {who.name, request->csr_pem(), request->name()},
                  [this, reactor, reply](absl::StatusOr<Joined> joined) {
                    if (joined.ok()) {
                      reply->set_certificate_pem(joined->certificate_pem);
                      reply->set_ca_pem(edge_.settings.ca.certificate_pem);
                      reply->set_node(joined->node.value);
                      reply->set_cluster_id(edge_.settings.cluster_id);
                    }
                    reactor->Finish(ToGrpc(joined.status()));
                  });
    });
  }
  Reactor* Shutdown(Context* context, const v1::ShutdownRequest* request, v1::Empty*) override {
    return Unary(edge_, context, "ClusterService/Shutdown", [&](auto&, Reactor* reactor) {
      StopRules rules{request->only_if_idle(), request->flush_only()};
      const bool stays = rules.flush_only || request->stay();
      StopEverything(edge_.loop, edge_.waits, rules, [this, stays, reactor](absl::Status status) {
        bool ends = !stays && (status.ok() || absl::IsDeadlineExceeded(status));
        reactor->Finish(ToGrpc(status));
        if (ends) edge_.end_head();
      });
    });
  }
  Reactor* Attend(Context* context, const v1::Empty*, v1::AttendReply* reply) override {
    return Unary(edge_, context, "ClusterService/Attend", [&](auto&, Reactor* reactor) {
      reply->set_lease_ms(edge_.settings.Attend());
      reactor->Finish(grpc::Status::OK);
    });
  }

 private:
  Edge& edge_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeClusterService(Edge& edge) {
  return std::make_unique<ClusterService>(edge);
}

}  // namespace rt
