#include "cli/head_client.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "cli/local_cluster.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"

namespace rt {

absl::Status HeadClient::Connect() { return Refresh(); }

Context HeadClient::context() {
  std::lock_guard lock(mutex_);
  return context_;
}

std::shared_ptr<grpc::Channel> HeadClient::Channel() {
  std::lock_guard lock(mutex_);
  return channel_;
}

std::shared_ptr<grpc::Channel> HeadClient::BulkChannel() {
  Context context = this->context();
  return MakeChannel(context.address, context.credentials, context.cluster_id, true);
}

absl::Status HeadClient::Refresh() {
  std::lock_guard one_at_a_time(locate_mutex_);
  RT_ASSIGN_OR_RETURN(Context context, locate_());
  RT_RETURN_IF_ERROR(Annotate(CheckOwnCertificate(context.credentials),
                              "the context '" + context.name + "'"));
  std::lock_guard lock(mutex_);
  if (context.cluster_id == context_.cluster_id)
    context.seen_epoch = std::max(context.seen_epoch, context_.seen_epoch);
  bool same = channel_ != nullptr && context.address == context_.address &&
              context.cluster_id == context_.cluster_id;
  context_ = std::move(context);
  if (!same)
    channel_ = MakeChannel(context_.address, context_.credentials, context_.cluster_id, false);
  return absl::OkStatus();
}

void HeadClient::Cancel() {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  for (grpc::ClientContext* context : in_flight_) context->TryCancel();
}

bool HeadClient::cancelled() {
  std::lock_guard lock(mutex_);
  return cancelled_;
}

HeadClient::Registered::Registered(HeadClient& client, grpc::ClientContext* context)
    : client_(client), context_(context) {
  std::lock_guard lock(client_.mutex_);
  client_.in_flight_.insert(context_);
  if (client_.cancelled_) context_->TryCancel();
}

HeadClient::Registered::~Registered() {
  std::lock_guard lock(client_.mutex_);
  client_.in_flight_.erase(context_);
}

uint64_t HeadClient::SeenEpoch() {
  std::lock_guard lock(mutex_);
  return context_.seen_epoch;
}

// A head of an earlier epoch, which does not know yet that another one leads, answers no more.
void HeadClient::NoteEpoch(const grpc::ClientContext& answered) {
  const auto& headers = answered.GetServerInitialMetadata();
  const auto found = headers.find(kEpochHeader);
  uint64_t epoch = 0;
  if (found == headers.end() ||
      !absl::SimpleAtoi(absl::string_view(found->second.data(), found->second.size()), &epoch))
    return;
  std::unique_lock lock(mutex_);
  if (epoch <= context_.seen_epoch) return;
  context_.seen_epoch = epoch;
  const Context context = context_;
  lock.unlock();
  if (remember_) remember_(context);
}

absl::Status HeadClient::Retry(Millis hold, const Attempt& attempt) {
  Millis give_up_at = 0;
  while (true) {
    absl::Status status = absl::OkStatus();
    if (Channel() == nullptr) status = Refresh();
    if (status.ok()) {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() +
                           std::chrono::milliseconds(kAnswerMax + hold));
      context.AddMetadata(kEpochHeader, std::to_string(SeenEpoch()));
      Registered registered(*this, &context);
      status = FromGrpc(attempt(Channel(), &context));
      NoteEpoch(context);
    }
    if (status.ok() || cancelled()) return status;
    // Our own deadline has gRPC's words; the head says what it waited for in vain.
    if (absl::IsDeadlineExceeded(status) && MessageOf(status) == "Deadline Exceeded")
      return absl::UnavailableError("the head does not answer");
    if (!absl::IsUnavailable(status)) return status;
    // Trying again would not help: whoever answers has no certificate of the context's CA.
    if (MessageOf(status).find("certificate verify failed") != std::string::npos)
      return absl::UnauthenticatedError(
          ToAbsl(context().address + " is not the head of '" + context().name + "'"));
    Millis now = SteadyMillis();
    if (give_up_at == 0) give_up_at = now + kRetryFor;
    if (now > give_up_at)
      return Annotate(status, "the head of '" + context().name + "' cannot be reached");
    SleepFor(200);
    Refresh().IgnoreError();  // A failure shows in the next try.
  }
}

absl::StatusOr<std::unique_ptr<HeadClient>> ConnectTo(const Home& home, const std::string& flag) {
  RT_ASSIGN_OR_RETURN(std::string name, home.Choose(flag));
  bool local = home.IsLocal(name);
  auto client = std::make_unique<HeadClient>([home, name, local]() -> absl::StatusOr<Context> {
    if (local) {
      if (!home.IsUp(name))
        return absl::UnavailableError(ToAbsl("cluster '" + name + "' is not up"));
      if (absl::Status alive = LocalCluster(home.ClusterDirectory(name)).EnsureHead(); !alive.ok())
        return WithHint(absl::UnavailableError(ToAbsl("the head of '" + name +
                                                      "' does not come up: " + MessageOf(alive))),
                        HintOf(alive));
    }
    return home.Load(name);
  }, [home](const Context& context) {
    home.NoteEpoch(context).IgnoreError();  // Then the next command asks as this one did.
  });
  RT_RETURN_IF_ERROR(client->Connect());
  return client;
}

}  // namespace rt
