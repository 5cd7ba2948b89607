// What the command line does when a head refuses a call.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>

#include "cli/client/head_client.h"
#include "common/base/busy.h"
#include "common/rpc/channel.h"

using namespace rt;

namespace {

constexpr Millis kHour = 3'600'000;

// Refuses the first calls with `refusal`.
class Moody final : public v1::JobService::Service {
 public:
  absl::Status refusal;
  int refusals = 0;
  std::atomic<int> asked = 0;

 private:
  grpc::Status Get(grpc::ServerContext*, const v1::JobRef*, v1::JsonReply* reply) override {
    if (asked++ < refusals) return ToGrpc(refusal);
    reply->set_json("{}");
    return grpc::Status::OK;
  }
};

struct House {
  KeyPair ca = *CreateCa("c1");
  Moody service;
  int port = 0;
  std::unique_ptr<grpc::Server> server;

  House() {
    PrepareGrpc();
    auto own = IssueKeyPair(ca, {.cluster_id = "c1", .kind = "head", .role = "head"}, kHour, {});
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", MakeServerCredentials({ca.certificate_pem, *own}),
                             &port);
    builder.RegisterService(&service);
    server = builder.BuildAndStart();
    REQUIRE(server != nullptr);
  }
  ~House() { server->Shutdown(std::chrono::system_clock::now()); }

  HeadClient MakeClient() {
    auto pair = IssueKeyPair(
        ca, {.cluster_id = "c1", .kind = "user", .name = "ada", .role = "user"}, kHour, {});
    const Context context{.name = "lab",
                          .cluster_id = "c1",
                          .address = "127.0.0.1:" + std::to_string(port),
                          .credentials = {ca.certificate_pem, *pair}};
    return HeadClient([context]() -> absl::StatusOr<Context> { return context; });
  }
};

absl::Status Ask(HeadClient& client) {
  return client.Call<v1::JobService>(&v1::JobService::Stub::Get, v1::JobRef()).status();
}

}  // namespace

TEST_CASE("head client: a head that has too much to do is asked again after a pause") {
  House house;
  house.service.refusal = BusyError("too many calls at once");
  house.service.refusals = 3;
  HeadClient client = house.MakeClient();
  CHECK(Ask(client).ok());
  CHECK(house.service.asked == 4);
}

TEST_CASE("head client: what does not pass by itself is not asked again") {
  House house;
  house.service.refusal = absl::ResourceExhaustedError("too many unused tokens: revoke some");
  house.service.refusals = 3;
  HeadClient client = house.MakeClient();
  CHECK(absl::IsResourceExhausted(Ask(client)));
  CHECK(house.service.asked == 1);
}
