// The head as the command line and the bridge see it: typed calls that survive a restart of the
// head. UNAVAILABLE is retried with a bound. It is short until the head has answered once, except
// on the head's own machine and inside a job or trial, where a head that does not answer is being
// restarted. Before each try `locate` finds the head again (and, for a local cluster, starts a dead
// one). A head that has too much to do (common/base/busy.h) is asked again as well. Thread-safe.
// Cancel() ends every call in flight.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "cli/client/home.h"
#include "common/base/json.h"
#include "common/base/time.h"
#include "rt/v1/cluster.grpc.pb.h"
#include "rt/v1/experiment.grpc.pb.h"
#include "rt/v1/job.grpc.pb.h"

namespace rt {

class HeadClient {
 public:
  using Locate = std::function<absl::StatusOr<Context>()>;
  static constexpr Millis kAnswerMax = 15'000;  // One call that does not wait by design.
  static constexpr Millis kRetryFor = 15'000;   // From the first UNAVAILABLE on.
  // The same for callers that wait for accepted work (WaitLonger), which runs on meanwhile.
  static constexpr Millis kWaitFor = 60'000;
  // The same for a head on another machine that has never answered: it may be dead.
  static constexpr Millis kFirstContactMax = 3'000;

  // `remember`: the context, when a head of a later epoch than before has answered.
  using Remember = std::function<void(const Context&)>;
  explicit HeadClient(Locate locate, Remember remember = nullptr)
      : locate_(std::move(locate)), remember_(std::move(remember)) {}

  // Finds the head, so that a wrong context shows at once.
  absl::Status Connect();
  // Waits for an answer; Unavailable when there is none within the bound of a first contact.
  absl::Status Reach();
  // Call it when the work is accepted: calls are then retried for kWaitFor.
  void WaitLonger();
  Context context();
  std::shared_ptr<grpc::Channel> BulkChannel();
  std::shared_ptr<grpc::Channel> Channel();
  // Before another try after UNAVAILABLE; the channel is new when the address is.
  absl::Status Refresh();
  void Cancel();
  bool cancelled();

  // One unary call: `Call<v1::JobService, v1::SubmitJobReply>(&…Stub::Submit, request)`. `hold`:
  // what the head may take on top of an ordinary answer.
  template <class Service, class Reply, class Request>
  absl::StatusOr<Reply> Call(grpc::Status (Service::Stub::*method)(grpc::ClientContext*,
                                                                   const Request&, Reply*),
                             const Request& request, Millis hold = 0) {
    Reply reply;
    absl::Status status =
        Retry(hold, [&](std::shared_ptr<grpc::Channel> channel, grpc::ClientContext* context) {
          return ((*Service::NewStub(channel)).*method)(context, request, &reply);
        });
    if (!status.ok()) return status;
    return reply;
  }
  // The same for the many calls that answer with JSON.
  template <class Service, class Request>
  absl::StatusOr<Json> Ask(grpc::Status (Service::Stub::*method)(grpc::ClientContext*,
                                                                 const Request&, v1::JsonReply*),
                           const Request& request, Millis hold = 0) {
    absl::StatusOr<v1::JsonReply> reply = Call<Service>(method, request, hold);
    if (!reply.ok()) return reply.status();
    return Json::Parse(reply->json());
  }

  // A context that Cancel() reaches while this lives; for streams.
  class Registered {
   public:
    Registered(HeadClient& client, grpc::ClientContext* context);
    ~Registered();
    Registered(const Registered&) = delete;
    Registered& operator=(const Registered&) = delete;

   private:
    HeadClient& client_;
    grpc::ClientContext* context_;
  };

 private:
  using Attempt = std::function<grpc::Status(std::shared_ptr<grpc::Channel>, grpc::ClientContext*)>;
  absl::Status Retry(Millis hold, const Attempt& attempt);
  absl::Status TryOnce(Millis hold, const Attempt& attempt, Millis give_up_at);
  Millis GiveUpAt(Millis asked_at, Millis failed_at);
  uint64_t SeenEpoch();
  void NoteEpoch(const grpc::ClientContext& answered);

  const Locate locate_;
  const Remember remember_;
  std::mutex locate_mutex_;  // Held while locating: one thread at a time starts a dead head.
  std::mutex mutex_;
  Context context_;
  std::shared_ptr<grpc::Channel> channel_;
  std::set<grpc::ClientContext*> in_flight_;
  bool cancelled_ = false;
  bool answered_ = false;  // A head has answered a call.
  Millis retry_for_ = kRetryFor;
};

// The client of the cluster that -c, RT_CLUSTER or the current context names.
absl::StatusOr<std::unique_ptr<HeadClient>> ConnectTo(const Home& home, const std::string& flag);

}  // namespace rt
