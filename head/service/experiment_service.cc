#include <algorithm>

#include "common/base/status.h"
#include "head/service/driver_ops.h"
#include "head/service/result_calls.h"
#include "head/service/services.h"
#include "rt/v1/experiment.grpc.pb.h"

namespace rt {
namespace {

using Context = grpc::CallbackServerContext;
using Reactor = grpc::ServerUnaryReactor;

TrialId IdOf(const v1::TrialRef& ref) { return {{ref.experiment()}, ref.number()}; }

class ExperimentService final : public v1::ExperimentService::CallbackService {
 public:
  explicit ExperimentService(Edge& edge)
      : edge_(edge), tools_{edge.operations, edge.blobs, edge.io} {}

  Reactor* Create(Context* context, const v1::CreateExperimentRequest* request,
                 v1::CreateExperimentReply* reply) override {
    return Unary(edge_, context, "ExperimentService/Create", [&](auto& who, Reactor* reactor) {
      edge_.operations.CreateExperiment(
          {who.name, {request->job()}, request->spec(), request->request_key()},
          [reactor, reply](absl::StatusOr<Json> answer) {
            if (answer.ok()) {
              reply->set_experiment(static_cast<uint64_t>(answer->GetInt("experiment")));
              reply->set_results_dir(answer->GetString("results_dir"));
              reply->set_attached(answer->GetBool("attached"));
            }
            reactor->Finish(ToGrpc(answer.status()));
          });
    });
  }
  Reactor* List(Context* context, const v1::Empty*, v1::JsonReply* reply) override {
    return Unary(edge_, context, "ExperimentService/List", [&](auto&, Reactor* reactor) {
      edge_.operations.Ask(
          [](const Core& core, const HeadFacts& facts) -> absl::StatusOr<Json> {
            return ExperimentListView(core, facts);
          },
          AnswerJsonTo(reactor, reply));
    });
  }
  Reactor* ListPage(Context* context, const v1::ListRequest* request,
                    v1::JsonReply* reply) override {
    return AnswerPage(edge_, context, "ExperimentService/ListPage", request, reply,
                      ExperimentPageView);
  }
  Reactor* Get(Context* context, const v1::ExperimentRef* request, v1::JsonReply* reply) override {
    return Unary(edge_, context, "ExperimentService/Get", [&](auto& who, Reactor* reactor) {
      edge_.operations.GetExperiment({request->experiment()},
                                     Showing(who, AnswerJsonTo(reactor, reply)));
    });
  }
  Reactor* Stop(Context* context, const v1::StopRequest* request, v1::Empty*) override {
    return Unary(edge_, context, "ExperimentService/Stop", [&](auto& who, Reactor* reactor) {
      edge_.operations.StopExperiment({request->experiment()},
                                      ReasonOr(request->reason(), "stopped by ", who),
                                      AnswerTo(reactor));
    });
  }
  Reactor* Wait(Context* context, const v1::WaitRequest* request, v1::JsonReply* reply) override {
    return Unary(edge_, context, "ExperimentService/Wait", [&](auto& who, Reactor* reactor) {
      edge_.operations.WaitExperiment({request->experiment()},
                                      {request->seen(), request->hold_ms()},
                                      Showing(who, AnswerJsonTo(reactor, reply)));
    });
  }
  Reactor* ListTrials(Context* context, const v1::ListTrialsRequest* request,
                     v1::JsonReply* reply) override {
    return Unary(edge_, context, "ExperimentService/ListTrials", [&](auto&, Reactor* reactor) {
      std::optional<TrialId> from;
      if (request->has_from()) from = IdOf(request->from());
      edge_.operations.ListTrials({request->experiment()}, from, AnswerJsonTo(reactor, reply));
    });
  }
  Reactor* GetTrial(Context* context, const v1::TrialRef* request, v1::JsonReply* reply) override {
    return Unary(edge_, context, "ExperimentService/GetTrial", [&](auto&, Reactor* reactor) {
      edge_.operations.GetTrial(IdOf(*request), AnswerJsonTo(reactor, reply));
    });
  }
  Reactor* StopTrial(Context* context, const v1::StopTrialRequest* request, v1::Empty*) override {
    return Unary(edge_, context, "ExperimentService/StopTrial", [&](auto& who, Reactor* reactor) {
      edge_.operations.StopTrial(IdOf(request->trial()),
                                 ReasonOr(request->reason(), "stopped by ", who),
                                 AnswerTo(reactor));
    });
  }
  Reactor* Pause(Context* context, const v1::StopRequest* request, v1::Empty*) override {
    return Unary(edge_, context, "ExperimentService/Pause", [&](auto& who, Reactor* reactor) {
      edge_.operations.Change(
          input::PauseExperiment{{request->experiment()}, ReasonOr(ReasonIn(*request), "by ", who)},
          AnswerTo(reactor));
    });
  }
  Reactor* Resume(Context* context, const v1::ResumeRequest* request, v1::Empty*) override {
    using TrialAction = input::ResumeExperiment::TrialAction;
    const auto failed = static_cast<TrialAction>(std::min<uint32_t>(request->failed(), 2));
    return Change(context, "ExperimentService/Resume",
                  input::ResumeExperiment{{request->experiment()}, failed});
  }
  Reactor* Extend(Context* context, const v1::ExtendRequest* request, v1::Empty*) override {
    return Change(context, "ExperimentService/Extend",
                  input::ExtendExperiment{{request->experiment()}, request->add_samples(),
                                          request->add_time_ms()});
  }
  Reactor* PauseTrial(Context* context, const v1::StopTrialRequest* request, v1::Empty*) override {
    return Unary(edge_, context, "ExperimentService/PauseTrial", [&](auto& who, Reactor* reactor) {
      edge_.operations.Change(input::PauseTrial{IdOf(request->trial()), PauseCause::kUser,
                                                ReasonOr(ReasonIn(*request), "by ", who)},
                              AnswerTo(reactor));
    });
  }
  Reactor* ResumeTrial(Context* context, const v1::TrialRef* request, v1::Empty*) override {
    return Change(context, "ExperimentService/ResumeTrial", input::ResumeTrial{IdOf(*request)});
  }
  Reactor* RetryTrial(Context* context, const v1::RetryTrialRequest* request, v1::Empty*) override {
    return Change(context, "ExperimentService/RetryTrial",
                  input::RetryTrial{IdOf(request->trial()), request->from_scratch()});
  }
  Reactor* ResizeTrial(Context* context, const v1::ResizeTrialRequest* request,
                       v1::Empty*) override {
    return Change(context, "ExperimentService/ResizeTrial",
                  input::ResizeRun{Owner::Of(IdOf(request->trial())), request->ranks()});
  }
  Reactor* ReadRows(Context* context, const v1::ReadRowsRequest* request,
                   v1::JsonReply* reply) override {
    return Unary(edge_, context, "ExperimentService/ReadRows", [&](auto&, Reactor* reactor) {
      edge_.operations.ReadRows(
          {IdOf(request->trial()), request->after_iteration(), request->after()},
          AnswerJsonTo(reactor, reply));
    });
  }
  Reactor* ListResults(Context* context, const v1::ListResultsRequest* request,
                      v1::ListResultsReply* reply) override {
    return Unary(edge_, context, "ExperimentService/ListResults", [&](auto&, Reactor* reactor) {
      rt::ListResults(edge_, *request, *reply, Finishing(reactor));
    });
  }
  Reactor* ReadResult(Context* context, const v1::ReadResultRequest* request,
                     v1::ReadResultReply* reply) override {
    return Unary(edge_, context, "ExperimentService/ReadResult", [&](auto&, Reactor* reactor) {
      rt::ReadResult(edge_, *request, *reply, Finishing(reactor));
    });
  }
  Reactor* Operate(Context* context, const v1::OperateRequest* request,
                  v1::JsonReply* reply) override {
    return Unary(edge_, context, "ExperimentService/Operate", [&](auto& who, Reactor* reactor) {
      StartDriverOp(tools_, {{}, who.name, {}}, request->json(), AnswerJsonTo(reactor, reply));
    });
  }

 private:
  static JsonDone Showing(const Identity& who, JsonDone done) {
    return [who, done = std::move(done)](absl::StatusOr<Json> experiment) {
      if (experiment.ok()) experiment = ShownTo(who, *std::move(experiment));
      done(std::move(experiment));
    };
  }
  static StatusDone Finishing(Reactor* reactor) {
    return [reactor](const absl::Status& status) { reactor->Finish(ToGrpc(status)); };
  }
  Reactor* Change(Context* context, const char* method, Input input) {
    return Unary(edge_, context, method, [&](auto&, Reactor* reactor) {
      edge_.operations.Change(std::move(input), AnswerTo(reactor));
    });
  }

  Edge& edge_;
  DriverTools tools_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeExperimentService(Edge& edge) {
  return std::make_unique<ExperimentService>(edge);
}

}  // namespace rt
