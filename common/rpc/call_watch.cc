#include "common/rpc/call_watch.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/server_context.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "common/base/busy.h"
#include "common/rpc/channel.h"
#include "common/run/clock.h"

namespace rt {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

constexpr size_t kClientsMax = 4'096;  // Above it those are forgotten that have no connection.
// A call that was taken in and broken off before its handler could run is missed; after so long
// without any that arrived, all that are missing are forgiven.
constexpr Millis kMissedAfter = 1'000;
// The few that are missed while others arrive all the time are forgiven as well.
constexpr Millis kForgivenEvery = 60'000;
// An identity cannot have more messages than that under way: those calls were broken off.
constexpr uint64_t kBodiesMax = 256;

const grpc::Status& TooManyCalls() {
  static const grpc::Status status = ToGrpc(BusyError("too many calls at once"));
  return status;
}

// What may happen now and then, but not all the time.
class Allowance {
 public:
  Allowance(double burst, double per_second)
      : burst_(burst), per_second_(per_second), left_(burst) {}
  // False when it is used up.
  bool Use() {
    std::lock_guard lock(mutex_);
    Refill();
    return --left_ > 0;
  }
  // How much of it was used lately.
  double used() {
    std::lock_guard lock(mutex_);
    Refill();
    return burst_ - left_;
  }

 private:
  void Refill() {
    const Millis now = SteadyClock();
    const double seconds = static_cast<double>(now - refilled_at_) / 1e3;
    left_ = std::min(burst_, left_ + seconds * per_second_);
    refilled_at_ = now;
  }

  const double burst_, per_second_;
  std::mutex mutex_;
  double left_;
  Millis refilled_at_ = SteadyClock();
};

}  // namespace

// Whoever showed a certificate of that name.
struct CallWatch::Client {
  explicit Client(const Identity& who)
      : name(who.kind + "/" + who.name), is_token(who.kind == "join" || who.kind.empty()),
        is_exempt(who.kind == "head") {}

  const std::string name;
  const bool is_token;
  const bool is_exempt;  // The head asks itself whether its port answers.
  std::atomic<size_t> connections = 0;
  std::atomic<size_t> calls = 0;  // Whose handlers run.
  std::atomic<Millis> blocked_until = 0;
  // Calls that were taken in, and those of them that arrived.
  std::atomic<uint64_t> taken = 0;
  std::atomic<Millis> taken_at = 0;
  std::atomic<uint64_t> arrived = 0;
  std::atomic<Millis> arrived_at = 0;
  std::atomic<Millis> forgiven_at = 0;
  Allowance resets{limits::kResetsBurst, limits::kResetsPerSecond};
  Allowance refusals{limits::kRefusalsBurst, limits::kRefusalsPerSecond};
  Allowance early_refusals{limits::kEarlyRefusalsBurst, limits::kRefusalsPerSecond};
  std::mutex mutex;
  std::map<const PeerConnection*, std::weak_ptr<PeerConnection>> sessions;
};

// A connection whose first call has arrived.
struct CallWatch::Session {
  Session(ClientPtr who, PeerConnection& peer) : client(std::move(who)), connection(peer) {
    ++client->connections;
    std::lock_guard lock(client->mutex);
    client->sessions[&connection] = connection.weak_from_this();
  }
  ~Session() {
    --client->connections;
    std::lock_guard lock(client->mutex);
    client->sessions.erase(&connection);
  }

  // Null before its first call.
  static std::shared_ptr<Session> Of(PeerConnection& connection) {
    std::lock_guard lock(connection.session_mutex);
    return std::static_pointer_cast<Session>(connection.session);
  }

  const ClientPtr client;
  PeerConnection& connection;  // It owns this session.
};

class CallWatch::Intake final : public grpc::AuthMetadataProcessor {
 public:
  explicit Intake(CallWatch& watch) : watch_(watch) {}
  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata&, grpc::AuthContext* context, OutputMetadata*,
                       OutputMetadata*) override {
    return watch_.Take(*watch_.ClientOf(context));
  }

 private:
  CallWatch& watch_;
};

class CallWatch::Call final : public grpc::experimental::Interceptor {
 public:
  Call(CallWatch& watch, ServerRpcInfo& info)
      : watch_(watch), context_(info.server_context()),
        is_callback_(dynamic_cast<grpc::CallbackServerContext*>(context_) != nullptr),
        uploads_(info.type() == ServerRpcInfo::Type::CLIENT_STREAMING ||
                 info.type() == ServerRpcInfo::Type::BIDI_STREAMING) {
    if (is_callback_) Arrive();
  }
  ~Call() override {
    if (client_ == nullptr) return;
    --client_->calls;
    if (connection_ == nullptr) return;
    if (uploads_) --connection_->uploads;
    --connection_->calls;
    ++connection_->progress;
  }
  void Intercept(InterceptorBatchMethods* methods) override {
    if (client_ == nullptr) Arrive();
    if (connection_ != nullptr) Note(*methods);
    methods->Proceed();
  }

 private:
  // The context of a synchronous call does not know its peer before the call's first operation. A
  // call has no connection where that is over already.
  void Arrive() {
    client_ = watch_.ClientOf(context_->auth_context().get());
    connection_ = watch_.listener_.Find(context_->peer());
    ++client_->arrived;
    client_->arrived_at = SteadyClock();
    ++client_->calls;
    if (connection_ == nullptr) return;
    session_ = watch_.SessionOf(*connection_, client_);
    ++connection_->progress;
    if (uploads_) {
      ++connection_->uploads;
      Trust();
    }
    if (++connection_->calls > limits::kCallsOfConnectionMax)
      watch_.Block(*client_, "more calls at once than it may have");
  }
  // From now on the kernel receives ahead as much as it decides.
  void Trust() {
    if (!client_->is_token && !connection_->is_trusted.exchange(true)) connection_->LiftBound();
  }
  void Note(InterceptorBatchMethods& methods) {
    if (methods.QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_MESSAGE) ||
        methods.QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_MESSAGE))
      ++connection_->progress;
    // Of a synchronous call it can only be asked before its end whether it was broken off.
    const auto last = is_callback_ ? InterceptionHookPoints::POST_RECV_CLOSE
                                   : InterceptionHookPoints::PRE_SEND_STATUS;
    if (!methods.QueryInterceptionHookPoint(last)) return;
    if (context_->IsCancelled()) watch_.NoteReset(*client_);
    else Trust();
  }

  CallWatch& watch_;
  ClientPtr client_;  // Null until it has arrived.
  std::shared_ptr<PeerConnection> connection_;
  std::shared_ptr<Session> session_;
  grpc::ServerContextBase* const context_;
  const bool is_callback_;
  const bool uploads_;
};

class CallWatch::Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(CallWatch& watch) : watch_(watch) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    return new Call(watch_, *info);
  }

 private:
  CallWatch& watch_;
};

CallWatch::CallWatch(PortListener& listener) : listener_(listener) {
  listener_.CountBodies([this](PeerConnection& connection) { return BodiesOf(connection); });
  listener_.OnFruitless([this](PeerConnection& connection) {
    const std::shared_ptr<Session> session = Session::Of(connection);
    if (session == nullptr) listener_.CutOff(connection, kSendsNothing);
    else Block(*session->client, kSendsNothing);
  });
}

// The first request of a connection that has not shown who it is may be that of any client.
size_t CallWatch::BodiesOf(PeerConnection& connection) {
  const Millis now = SteadyClock();
  auto under_way = [now](const Client& client) -> size_t {
    const uint64_t taken = client.taken, arrived = client.arrived;
    const bool may_come = !client.is_token && client.blocked_until < now &&
                          now - client.taken_at < limits::kBodyMax;
    return may_come && taken > arrived && taken - arrived <= kBodiesMax ? taken - arrived : 0;
  };
  if (const std::shared_ptr<Session> session = Session::Of(connection))
    return under_way(*session->client);
  std::lock_guard lock(mutex_);
  return std::any_of(by_name_.begin(), by_name_.end(),
                     [&](const auto& one) { return under_way(*one.second) > 0; })
             ? 1
             : 0;
}

std::shared_ptr<grpc::AuthMetadataProcessor> CallWatch::MakeIntake() {
  return std::make_shared<Intake>(*this);
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> CallWatch::MakeFactory() {
  return std::make_unique<Factory>(*this);
}

CallWatch::ClientPtr CallWatch::ClientOf(const grpc::AuthContext* context) {
  std::string_view pem;
  if (context != nullptr) {
    const auto found = context->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
    if (!found.empty()) pem = {found[0].data(), found[0].size()};
  }
  {
    std::lock_guard lock(mutex_);
    if (auto found = by_certificate_.find(pem); found != by_certificate_.end())
      return found->second;
  }
  const absl::StatusOr<Identity> read = IdentityOf(std::string(pem));
  const Identity who = read.ok() ? *read : Identity{};
  const std::string name = who.kind + "/" + who.name;
  std::lock_guard lock(mutex_);
  ClientPtr& client = by_name_[name];
  if (client == nullptr) client = std::make_shared<Client>(who);
  const ClientPtr kept = client;
  by_certificate_.emplace(pem, kept);
  if (by_certificate_.size() > kClientsMax) Forget(kept);
  return kept;
}

void CallWatch::Forget(const ClientPtr& except) {
  const Millis now = SteadyClock();
  auto is_gone = [&](const auto& one) {
    const Client& client = *one.second;
    return one.second != except && client.connections == 0 && client.calls == 0 &&
           client.blocked_until < now;
  };
  std::erase_if(by_certificate_, is_gone);
  std::erase_if(by_name_, is_gone);
}

// One more call is refused. Of a client that breaks calls off, and of a token, fewer are: those of
// which nothing comes are many more than those that are seen to be broken off.
bool CallWatch::MayBeRefused(Client& client) {
  const bool is_early = !client.is_token && client.resets.used() < limits::kResetsNoted;
  const bool has_left = client.refusals.Use();
  return is_early ? client.early_refusals.Use() : has_left;
}

grpc::Status CallWatch::Take(Client& client) {
  if (client.is_exempt) return grpc::Status::OK;
  const Millis now = SteadyClock();
  const uint64_t taken = client.taken++;
  const uint64_t arrived = client.arrived;
  size_t under_way = taken > arrived ? taken - arrived : 0;
  const size_t most = client.is_token ? limits::kCallsOfTokenMax : limits::kCallsUnderWayMax;
  if ((under_way > most && now - client.arrived_at > kMissedAfter) ||
      (under_way > 0 && now - client.forgiven_at > kForgivenEvery)) {
    client.arrived_at = client.forgiven_at = now;
    client.taken = arrived + 1;
    under_way = 0;
  }
  if (under_way > limits::kCallsOfFlood) listener_.NoteFlood();
  grpc::Status refused;
  if (client.blocked_until > now) {
    // A few: the first that arrives tells which connection is to be cut off.
    if (under_way > limits::kCallsOfBlockedMax)
      refused = {grpc::StatusCode::UNAVAILABLE, "blocked for a while"};
  } else if (under_way > most) {
    if (!MayBeRefused(client)) Block(client, "more calls at once than can be looked at");
    refused = TooManyCalls();
  } else if (client.calls > (client.is_token ? most : limits::kCallsOfIdentityMax)) {
    refused = TooManyCalls();
  }
  if (!refused.ok()) --client.taken;
  else client.taken_at = now;
  return refused;
}

std::shared_ptr<CallWatch::Session> CallWatch::SessionOf(PeerConnection& connection,
                                                     const ClientPtr& client) {
  std::lock_guard lock(connection.session_mutex);
  if (connection.session == nullptr) {
    auto session = std::make_shared<Session>(client, connection);
    connection.session = session;
    Admit(*session);
  }
  return std::static_pointer_cast<Session>(connection.session);
}

void CallWatch::Admit(Session& session) {
  const Client& client = *session.client;
  session.connection.admitted = true;
  if (client.is_exempt) return;
  const size_t share = client.is_token ? limits::kConnectionsOfToken
                                      : listener_.connections_max() / limits::kConnectionsShare;
  if (client.blocked_until > SteadyClock()) {
    listener_.CutOff(session.connection, "");
  } else if (client.connections > share) {
    listener_.CutOff(session.connection,
                     client.name + " has " + std::to_string(share) + " connections already");
  }
}

void CallWatch::NoteReset(Client& client) {
  if (!client.resets.Use()) Block(client, "it begins calls and breaks them off");
}

// Cuts off all its connections, and the next ones for a while.
void CallWatch::Block(Client& client, const std::string& why) {
  if (client.is_exempt) return;
  const Millis now = SteadyClock();
  const bool is_news = client.blocked_until.exchange(now + limits::kBlockedFor) < now;
  std::vector<std::shared_ptr<PeerConnection>> connections;
  {
    std::lock_guard lock(client.mutex);
    for (const auto& [ignored, session] : client.sessions)
      if (auto connection = session.lock()) connections.push_back(std::move(connection));
  }
  for (const auto& connection : connections)
    listener_.CutOff(*connection, is_news ? client.name + ": " + why : "");
}

}  // namespace rt
