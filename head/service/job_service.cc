#include "head/service/log_reader.h"
#include "head/service/services.h"
#include "rt/v1/job.grpc.pb.h"

namespace rt {
namespace {

using Context = grpc::CallbackServerContext;
using Reactor = grpc::ServerUnaryReactor;

class RefusedRead final : public grpc::ServerWriteReactor<v1::LogChunk> {
 public:
  explicit RefusedRead(const absl::Status& status) { Finish(ToGrpc(status)); }
  void OnDone() override { delete this; }
};

class JobService final : public v1::JobService::CallbackService {
 public:
  explicit JobService(Edge& edge) : edge_(edge) {}

  Reactor* Submit(Context* context, const v1::SubmitJobRequest* request,
                  v1::SubmitJobReply* reply) override {
    return Unary(edge_, context, "JobService/Submit", [&](auto& who, Reactor* reactor) {
      edge_.operations.SubmitJob(who.name, request->spec(), request->request_key(),
                                 [reactor, reply](absl::StatusOr<Json> answer) {
                                   if (answer.ok())
                                     reply->set_job(static_cast<uint64_t>(answer->GetInt("job")));
                                   reactor->Finish(ToGrpc(answer.status()));
                                 });
    });
  }
  Reactor* List(Context* context, const v1::Empty*, v1::JsonReply* reply) override {
    return Unary(edge_, context, "JobService/List", [&](auto&, Reactor* reactor) {
      edge_.operations.Ask(
          [](const Core& core, const HeadFacts& facts) -> absl::StatusOr<Json> {
            return JobListView(core, facts);
          },
          AnswerJsonTo(reactor, reply));
    });
  }
  Reactor* ListPage(Context* context, const v1::ListRequest* request,
                    v1::JsonReply* reply) override {
    return AnswerPage(edge_, context, "JobService/ListPage", request, reply, JobPageView);
  }
  Reactor* Get(Context* context, const v1::JobRef* request, v1::JsonReply* reply) override {
    return Unary(edge_, context, "JobService/Get", [&](auto&, Reactor* reactor) {
      edge_.operations.GetJob({request->job()}, AnswerJsonTo(reactor, reply));
    });
  }
  Reactor* Stop(Context* context, const v1::StopJobRequest* request, v1::Empty*) override {
    return Unary(edge_, context, "JobService/Stop", [&](auto& who, Reactor* reactor) {
      edge_.operations.StopJob({request->job()}, ReasonOr(request->reason(), "stopped by ", who),
                               AnswerTo(reactor));
    });
  }
  Reactor* Wait(Context* context, const v1::WaitJobRequest* request,
                v1::JsonReply* reply) override {
    return Unary(edge_, context, "JobService/Wait", [&](auto&, Reactor* reactor) {
      edge_.operations.WaitJob({request->job()}, {request->seen_state(), request->hold_ms()},
                               AnswerJsonTo(reactor, reply));
    });
  }
  grpc::ServerWriteReactor<v1::LogChunk>* ReadLog(Context* context,
                                                  const v1::ReadLogRequest* request) override {
    absl::StatusOr<Identity> who = Admit(edge_, *context, "JobService/ReadLog");
    if (!who.ok()) return new RefusedRead(who.status());
    return StartLogReader(edge_, *request);
  }

 private:
  Edge& edge_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeJobService(Edge& edge) {
  return std::make_unique<JobService>(edge);
}

}  // namespace rt
