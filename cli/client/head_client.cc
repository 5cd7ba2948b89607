#include "cli/client/head_client.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <optional>

#include "absl/strings/numbers.h"
#include "cli/client/local_cluster.h"
#include "cli/render/unreachable.h"
#include "common/base/busy.h"
#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "common/rpc/connection.h"
#include "common/run/clock.h"

namespace rt {
namespace {

// Where a context names several heads, one of them may be about to take over.
constexpr Millis kTakeoverMax = 10'000;
constexpr uint64_t kBusyPause = 200;

// True in a job or a trial, and in every program that one of them starts.
bool RunsInJob() {
  const char* socket = std::getenv("RT_SOCKET");
  return socket != nullptr && *socket != '\0';
}

absl::Status NotReached(const Context& context, const absl::Status& status) {
  return Unreachable({context.name, context.address, context.local_directory}, MessageOf(status));
}

// The pause is random, so that clients that were refused together do not all return at once.
Millis BusyPause() {
  static std::atomic<uint64_t> count = 0;
  const uint64_t drawn = Mix64(++count ^ static_cast<uint64_t>(SteadyClock()));
  return kBusyPause / 2 + static_cast<Millis>(drawn % kBusyPause);
}

}  // namespace

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
  RT_RETURN_IF_ERROR(
      Annotate(CheckOwnCertificate(context.credentials), "the context '" + context.name + "'"));
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

void HeadClient::WaitLonger() {
  std::lock_guard lock(mutex_);
  retry_for_ = kWaitFor;
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

// Refuses the answer of a head of an earlier epoch: it does not know yet that another one leads.
void HeadClient::NoteEpoch(const grpc::ClientContext& answered) {
  const auto& headers = answered.GetServerInitialMetadata();
  const auto found = headers.find(kEpochHeader);
  uint64_t epoch = 0;
  if (found == headers.end() ||
      !absl::SimpleAtoi(absl::string_view(found->second.data(), found->second.size()), &epoch))
    return;
  std::unique_lock lock(mutex_);
  answered_ = true;
  if (epoch <= context_.seen_epoch) return;
  context_.seen_epoch = epoch;
  const Context context = context_;
  lock.unlock();
  if (remember_) remember_(context);
}

// A head of this machine was alive when it was located, and the head of a job's cluster when the
// job was started: it is slow, or is being restarted.
Millis HeadClient::GiveUpAt(Millis asked_at, Millis failed_at) {
  std::lock_guard lock(mutex_);
  if (answered_) return failed_at + retry_for_;
  if (!context_.local_directory.empty() || RunsInJob()) return failed_at + kRetryFor;
  const bool has_standby = context_.address.find(',') != std::string::npos;
  return asked_at + (has_standby ? kTakeoverMax : kFirstContactMax);
}

absl::Status HeadClient::TryOnce(Millis hold, const Attempt& attempt, Millis give_up_at) {
  const std::shared_ptr<grpc::Channel> channel = Channel();
  RT_RETURN_IF_ERROR(AwaitConnection(*channel, give_up_at, [this] { return cancelled(); }));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(kAnswerMax + hold));
  context.AddMetadata(kEpochHeader, std::to_string(SeenEpoch()));
  Registered registered(*this, &context);
  absl::Status status = FromGrpc(attempt(channel, &context));
  NoteEpoch(context);
  return status;
}

absl::Status HeadClient::Retry(Millis hold, const Attempt& attempt) {
  absl::Status located = Channel() == nullptr ? Refresh() : absl::OkStatus();
  const Millis asked_at = SteadyClock();
  std::optional<Millis> failed_at;
  while (true) {
    absl::Status status = located;
    const Millis give_up_at = GiveUpAt(asked_at, failed_at.value_or(SteadyClock()));
    if (Channel() != nullptr) status = TryOnce(hold, attempt, give_up_at);
    if (status.ok() || cancelled()) return status;
    // When our own deadline passed, the text is gRPC's; the head's own error says more.
    if (absl::IsDeadlineExceeded(status) && MessageOf(status) == "Deadline Exceeded")
      return NotReached(context(), status);
    if (IsBusy(status)) {
      failed_at = failed_at.value_or(SteadyClock());
      if (SteadyClock() >= *failed_at + kRetryFor) return status;
      SleepFor(BusyPause());
      continue;
    }
    if (!absl::IsUnavailable(status)) return status;
    // Trying again would not help: whoever answers has no certificate of the context's CA.
    if (MessageOf(status).find("certificate verify failed") != std::string::npos)
      return absl::UnauthenticatedError(
          ToAbsl(context().address + " is not the head of '" + context().name + "'"));
    if (!failed_at.has_value()) failed_at = SteadyClock();
    // A cluster that is down does not come back by itself.
    if (!located.ok() && SteadyClock() >= *failed_at + kRetryFor) return located;
    if (SteadyClock() >= GiveUpAt(asked_at, *failed_at))
      return located.ok() ? NotReached(context(), status) : located;
    SleepFor(200);
    located = Refresh();  // A failure shows in the next try.
  }
}

absl::Status HeadClient::Reach() {
  // An answer of any kind will do; no job is 0.
  absl::StatusOr<v1::JsonReply> answer =
      Call<v1::JobService>(&v1::JobService::Stub::Get, v1::JobRef());
  return absl::IsNotFound(answer.status()) ? absl::OkStatus() : answer.status();
}

absl::StatusOr<std::unique_ptr<HeadClient>> ConnectTo(const Home& home, const std::string& flag) {
  RT_ASSIGN_OR_RETURN(std::string name, home.Choose(flag));
  bool local = home.IsLocal(name);
  auto client = std::make_unique<HeadClient>(
      [home, name, local]() -> absl::StatusOr<Context> {
        if (local) {
          if (!home.IsUp(name))
            return absl::UnavailableError(ToAbsl("cluster '" + name + "' is not up"));
          if (absl::Status alive = LocalCluster(home.ClusterDirectory(name)).EnsureHead();
              !alive.ok())
            return WithHint(
                absl::UnavailableError(
                    ToAbsl("the head of '" + name + "' does not come up: " + MessageOf(alive))),
                HintOf(alive));
        }
        return home.Load(name);
      },
      [home](const Context& context) {
        home.NoteEpoch(context).IgnoreError();  // Then the next command asks as this one did.
      });
  RT_RETURN_IF_ERROR(client->Connect());
  return client;
}

}  // namespace rt
