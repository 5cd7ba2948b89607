// How a join token is presented, and what is said when it is refused.
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "common/rpc/join.h"
#include "rt/v1/cluster.grpc.pb.h"

using namespace rt;

namespace {

constexpr Millis kHour = 3'600'000;
const KeyPair& Ca() {
  static const KeyPair ca = *CreateCa("c1");
  return ca;
}

// Signs what is asked for, and remembers the name.
class Signer final : public v1::ClusterService::Service {
 public:
  explicit Signer(std::string kind) : kind_(std::move(kind)) {}
  std::string asked_name;
  std::atomic<int> asked = 0;
  absl::Status refusal;

 private:
  grpc::Status Join(grpc::ServerContext*, const v1::JoinRequest* request,
                    v1::JoinReply* reply) override {
    ++asked;
    asked_name = request->name();
    if (!refusal.ok()) return ToGrpc(refusal);
    const bool is_node = kind_ == "node";
    auto signed_one = SignCsr(Ca(), request->csr_pem(),
                              {.cluster_id = "c1", .kind = kind_, .name = is_node ? "1" : "ada",
                               .role = is_node ? "worker" : "user"}, kHour);
    if (!signed_one.ok()) return ToGrpc(signed_one.status());
    reply->set_certificate_pem(*signed_one);
    reply->set_ca_pem(Ca().certificate_pem);
    return grpc::Status::OK;
  }
  const std::string kind_;
};

// A head at a port of its own. It lets in whoever has a certificate of `trusted`.
struct House {
  Signer signer;
  int port = 0;
  std::unique_ptr<grpc::Server> server;

  explicit House(const std::string& kind, const KeyPair& trusted = Ca(), int at = 0)
      : signer(kind) {
    PrepareGrpc();
    auto own = IssueKeyPair(Ca(), {.cluster_id = "c1", .kind = "head", .role = "head"}, kHour, {});
    grpc::ServerBuilder builder;
    ConfigureServer(builder);
    builder.AddListeningPort("127.0.0.1:" + std::to_string(at),
                             MakeServerCredentials({trusted.certificate_pem, *own}), &port);
    builder.RegisterService(&signer);
    server = builder.BuildAndStart();
    REQUIRE(server != nullptr);
    REQUIRE(port != 0);
  }
  ~House() { server->Shutdown(std::chrono::system_clock::now()); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port); }
};

std::string TokenText(const std::string& role, const std::string& name, Millis valid_for = kHour) {
  auto pair = IssueKeyPair(
      Ca(), {.cluster_id = "c1", .kind = "join", .name = "t1", .role = "join"}, valid_for, {});
  return EncodeJoinToken({"t1", "c1", {Ca().certificate_pem, *pair}, role, name});
}

}  // namespace

TEST_CASE("join: the name asked for is that of the token, unless another one is given") {
  House house("node");
  JoinAsk ask{.head = house.address(), .token = TokenText("worker", "w1"), .kind = "node",
              .name = "", .default_name = "host"};
  const auto joined = JoinCluster(ask);
  INFO(joined.status().ToString());
  REQUIRE(joined.ok());
  CHECK((joined->identity.kind == "node" && joined->identity.name == "1"));
  CHECK(joined->credentials.own.key_pem.find("PRIVATE KEY") != std::string::npos);
  CHECK(house.signer.asked_name == "w1");
  ask.name = "w2";  // The head refuses it.
  REQUIRE(JoinCluster(ask).ok());
  CHECK(house.signer.asked_name == "w2");
  ask.name = "";
  ask.token = TokenText("worker", "");
  REQUIRE(JoinCluster(ask).ok());
  CHECK(house.signer.asked_name == "host");
}

TEST_CASE("join: what the head refuses is passed on, with what to do") {
  House house("user");
  house.signer.refusal =
      WithHint(absl::PermissionDeniedError("this token was used, revoked, or has expired"), "ask");
  const absl::Status refused =
      JoinCluster({.head = house.address(), .token = TokenText("user", "ada"), .kind = "user",
                   .away_max = 10'000})
          .status();
  CHECK(absl::IsPermissionDenied(refused));
  CHECK(MessageOf(refused) == "this token was used, revoked, or has expired");
  CHECK(HintOf(refused) == "ask");
  CHECK(house.signer.asked == 1);
}

TEST_CASE("join: a head whose clock says that the token has expired is named, and the clocks") {
  const KeyPair other = *CreateCa("c1");  // It refuses the certificate as it would an expired one.
  House house("node", other);
  const absl::Status refused =
      JoinCluster({.head = house.address(), .token = TokenText("worker", ""), .kind = "node",
                   .away_max = 60'000})
          .status();
  INFO(refused.ToString());
  CHECK(absl::IsUnauthenticated(refused));
  CHECK(MessageOf(refused).find("refuses the token: by the head's clock it has expired") !=
        std::string::npos);
  CHECK(HintOf(refused).find("rt token create --role worker") != std::string::npos);
  CHECK(house.signer.asked == 0);
}

TEST_CASE("join: a token that has expired by this clock, or while the head was away, says so") {
  const absl::Status expired =
      JoinCluster({.head = "127.0.0.1:1", .token = TokenText("user", "ada", -kHour),
                   .kind = "user", .away_max = 60'000})
          .status();
  CHECK(absl::IsUnauthenticated(expired));
  CHECK(MessageOf(expired).find("the join token: the certificate has expired") == 0);
  CHECK(HintOf(expired) == "ask an admin for another: rt token create --role user");
  const absl::Status meanwhile =
      JoinCluster({.head = "127.0.0.1:1", .token = TokenText("user", "ada", 1'000),
                   .kind = "user", .away_max = 60'000})
          .status();
  CHECK(MessageOf(meanwhile).find("the join token: the certificate has expired") == 0);
}

TEST_CASE("join: a head that is away is waited for, and is unavailable when it stays away") {
  int port = 0;
  { port = House("node").port; }
  const std::string address = "127.0.0.1:" + std::to_string(port);
  CHECK(absl::IsUnavailable(
      JoinCluster({.head = address, .token = TokenText("worker", ""), .kind = "node"}).status()));
  absl::StatusOr<Joined> joined = absl::UnknownError("no answer");
  std::thread waiting([&] {
    joined = JoinCluster({.head = address, .token = TokenText("worker", ""), .kind = "node",
                          .away_max = 60'000});
  });
  std::this_thread::yield();
  House back("node", Ca(), port);
  waiting.join();
  INFO(joined.status().ToString());
  CHECK(joined.ok());
}

TEST_CASE("join: a token for a worker is not spent on a person, nor the other way round") {
  House house("node");
  const absl::Status person =
      JoinCluster({.head = house.address(), .token = TokenText("worker", ""), .kind = "user"})
          .status();
  CHECK(MessageOf(person) == "this token is for a worker: use it with rt-worker");
  const absl::Status node =
      JoinCluster({.head = house.address(), .token = TokenText("admin", "ada"), .kind = "node"})
          .status();
  CHECK(absl::IsPermissionDenied(node));
  CHECK(house.signer.asked == 0);
  // Tokens of older heads do not say what they are for.
  const absl::Status old =
      JoinCluster({.head = house.address(), .token = TokenText("", ""), .kind = "user"}).status();
  CHECK(MessageOf(old) == "this token was for a node; it is used up now");
}

TEST_CASE("join: another cluster's head is told from one that is away") {
  House house("node");
  const KeyPair other = *CreateCa("c1");
  auto pair = IssueKeyPair(
      other, {.cluster_id = "c1", .kind = "join", .name = "t1", .role = "join"}, kHour, {});
  const absl::Status refused =
      JoinCluster({.head = house.address(),
                   .token = EncodeJoinToken({"t1", "c1", {other.certificate_pem, *pair}}),
                   .kind = "node", .away_max = 60'000})
          .status();
  CHECK(MessageOf(refused) == house.address() + " is not the head of the token's cluster");
}
