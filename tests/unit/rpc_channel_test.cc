#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <future>

#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "tests/patience.h"

using namespace rt;

namespace {

constexpr Millis kLifetime = 3'600'000;

// Answers every call with the caller's identity, as the message of an ABORTED status with a hint.
class WhoAmI : public grpc::CallbackGenericService {
  class Reactor : public grpc::ServerGenericBidiReactor {
   public:
    explicit Reactor(grpc::Status status) { Finish(std::move(status)); }
    void OnDone() override { delete this; }
  };
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    auto identity = PeerIdentity(*context->auth_context());
    absl::Status status = identity.ok()
        ? absl::AbortedError(ToAbsl(identity->kind + "/" + identity->name + "/" + identity->role))
        : identity.status();
    return new Reactor(ToGrpc(WithHint(WithPosition(status, {"a.yaml", 3, 7}), "a hint")));
  }
};

struct House {
  KeyPair ca = *CreateCa("c1");
  WhoAmI service;
  int port = 0;
  std::unique_ptr<grpc::Server> server;

  House() {
    PrepareGrpc();
    auto own =
        IssueKeyPair(ca, {.cluster_id = "c1", .kind = "head", .role = "head"}, kLifetime, {});
    grpc::ServerBuilder builder;
    ConfigureServer(builder);
    builder.AddListeningPort("127.0.0.1:0", MakeServerCredentials({ca.certificate_pem, *own}),
                             &port);
    builder.RegisterCallbackGenericService(&service);
    server = builder.BuildAndStart();
    REQUIRE(server != nullptr);
  }
  ~House() { server->Shutdown(std::chrono::system_clock::now()); }

  Credentials CredentialsFrom(const KeyPair& issuer, Millis valid_for) const {
    auto pair = IssueKeyPair(
        issuer, {.cluster_id = "c1", .kind = "user", .name = "ada", .role = "admin"}, valid_for,
        {});
    return {ca.certificate_pem, *pair};
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port); }
};

absl::Status Call(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  grpc::Slice slice("x");
  grpc::ByteBuffer request(&slice, 1), reply;
  std::promise<grpc::Status> done;
  stub.UnaryCall(&context, "/x/y", grpc::StubOptions(), &request, &reply,
                 [&](grpc::Status status) { done.set_value(std::move(status)); });
  return FromGrpc(done.get_future().get());
}

}  // namespace

TEST_CASE("channel: the server knows its peer, and a status keeps its hint and position") {
  House house;
  for (bool bulk : {false, true}) {
    absl::Status status =
        Call(MakeChannel(house.address(), house.CredentialsFrom(house.ca, kLifetime), "c1", bulk));
    CHECK(status.code() == absl::StatusCode::kAborted);
    CHECK(MessageOf(status) == "user/ada/admin");
    CHECK(HintOf(status) == "a hint");
    CHECK(PositionOf(status).file == "a.yaml");
    CHECK(PositionOf(status).column == 7);
  }
}

TEST_CASE("channel: the server refuses a stranger's, an expired and a missing certificate") {
  House house;
  Credentials stranger = house.CredentialsFrom(*CreateCa("c1"), kLifetime);
  CHECK(Call(MakeChannel(house.address(), stranger, "c1", false)).code() ==
        absl::StatusCode::kUnavailable);
  Credentials expired = house.CredentialsFrom(house.ca, -60'000);
  CHECK(Call(MakeChannel(house.address(), expired, "c1", false)).code() ==
        absl::StatusCode::kUnavailable);
  Credentials nobody{house.ca.certificate_pem, {}};
  CHECK(Call(MakeChannel(house.address(), nobody, "c1", false)).code() ==
        absl::StatusCode::kUnavailable);
  CHECK(Call(grpc::CreateChannel(house.address(), grpc::InsecureChannelCredentials())).code() ==
        absl::StatusCode::kUnavailable);
}

TEST_CASE("channel: the client refuses a head of another cluster or CA") {
  House house;
  Credentials good = house.CredentialsFrom(house.ca, kLifetime);
  CHECK(Call(MakeChannel(house.address(), good, "c2", false)).code() ==
        absl::StatusCode::kUnavailable);
  Credentials other_ca = good;
  other_ca.ca_pem = CreateCa("c1")->certificate_pem;
  CHECK(Call(MakeChannel(house.address(), other_ca, "c1", false)).code() ==
        absl::StatusCode::kUnavailable);
}

TEST_CASE("status: a call that the server cancelled because it ends may be tried again") {
  CHECK(absl::IsUnavailable(FromGrpc(grpc::Status::CANCELLED)));
}

TEST_CASE("status: every other code survives the wire, and long messages are cut") {
  for (int code = 2; code <= 16; ++code) {
    absl::Status status(static_cast<absl::StatusCode>(code), "what");
    CHECK(FromGrpc(ToGrpc(status)) == status);
  }
  CHECK(FromGrpc(ToGrpc(absl::OkStatus())).ok());
  CHECK(MessageOf(FromGrpc(ToGrpc(Invalid(std::string(10'000, 'x'))))).size() == 4'096);
}
