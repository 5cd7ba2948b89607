// The calls that a worker makes on behalf of its trials and drivers.
#include <grpcpp/grpcpp.h>

#include <catch2/catch.hpp>
#include <condition_variable>
#include <mutex>

#include "rt/v1/worker.grpc.pb.h"
#include "tests/patience.h"
#include "worker/link/head_link.h"

namespace rt::worker {
namespace {

constexpr int kStreams = 4;

// Holds the calls of drivers, and answers all others.
class HoldingService : public v1::WorkerService::Service {
 public:
  grpc::Status DriverCall(grpc::ServerContext*, const v1::DriverCallRequest*,
                          v1::JsonReply* reply) override {
    std::unique_lock lock(mutex_);
    ++held_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_open_; });
    reply->set_json("{}");
    return grpc::Status::OK;
  }
  grpc::Status KeepCheckpoint(grpc::ServerContext*, const v1::KeepCheckpointRequest*,
                              v1::KeepCheckpointReply*) override {
    return grpc::Status::OK;
  }
  void AwaitHeld(int count) {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, kPatience, [&] { return held_ >= count; }));
  }
  void Open() {
    std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int held_ = 0;
  bool is_open_ = false;
};

std::shared_ptr<grpc::Channel> Dial(int port) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port),
                                   grpc::InsecureChannelCredentials(), arguments);
}

TEST_CASE("drivers that wait for the head do not hold up the worker's own calls") {
  HoldingService service;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreams);
  builder.RegisterService(&service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  REQUIRE(server != nullptr);
  AttemptTable attempts;
  HeadLink head(Dial(port), Dial(port), attempts);
  std::mutex mutex;
  std::condition_variable changed;
  int answered = 0;
  constexpr int kCalls = 3 * kStreams;
  for (int i = 0; i < kCalls; ++i) {
    head.DriverCall({{Owner::Of(JobId{1}), 1, 1}, 0}, "{}", [&](absl::StatusOr<std::string>) {
      std::lock_guard lock(mutex);
      ++answered;
      changed.notify_all();
    });
  }
  service.AwaitHeld(kStreams);
  CHECK(head.RenewReplica({}).ok());
  service.Open();
  std::unique_lock lock(mutex);
  CHECK(changed.wait_for(lock, kPatience, [&] { return answered == kCalls; }));
  lock.unlock();
  server->Shutdown();
}

}  // namespace
}  // namespace rt::worker
