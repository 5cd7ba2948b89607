// Streams of connections to executors elsewhere: bytes go both ways, and all end with Finish.
#include <grpcpp/grpcpp.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/rpc/channel.h"
#include "common/rpc/task_stream.h"
#include "common/run/owned_fd.h"
#include "rt/v1/task.grpc.pb.h"

namespace rt {
namespace {

// An executor's node: what comes goes back, up to the end.
class Echo final : public v1::TaskService::Service {
  grpc::Status Dial(grpc::ServerContext*,
                    grpc::ServerReaderWriter<v1::TaskBytes, v1::TaskBytes>* stream) override {
    v1::TaskBytes piece;
    while (stream->Read(&piece) && stream->Write(piece) && !piece.data().empty()) continue;
    return grpc::Status::OK;
  }
};

struct Node {
  Node() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&echo);
    server = builder.BuildAndStart();
    REQUIRE(server != nullptr);
    stub = v1::TaskService::NewStub(grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port),
                                                              grpc::InsecureChannelCredentials(),
                                                              ClientArguments(false)));
  }
  ~Node() { server->Shutdown(); }

  Echo echo;
  int port = 0;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<v1::TaskService::Stub> stub;
};

// Starts a stream; returns the program's end of its connection.
OwnedFd Connect(TaskStreams& streams, Node& node) {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const auto theirs = std::make_shared<OwnedFd>(ends[1]);
  const absl::Status started = streams.Start([&, theirs](TaskStreams::Stream& stream) {
    stream.bytes = node.stub->Dial(&stream.context);
    streams.Carry(stream, theirs->get());
  });
  REQUIRE(started.ok());
  return OwnedFd(ends[0]);
}

std::string ReadAll(int fd) {
  std::string all;
  char some[4'096];
  for (ssize_t count; (count = ::recv(fd, some, sizeof some, 0)) > 0;)
    all.append(some, static_cast<size_t>(count));
  return all;
}

}  // namespace

TEST_CASE("task streams: bytes come back whole, each on the connection that they went on") {
  Node node;
  TaskStreams streams(8);
  std::vector<OwnedFd> connections;
  std::vector<std::future<bool>> same;
  for (int number = 0; number < 4; ++number) connections.push_back(Connect(streams, node));
  for (const OwnedFd& connection : connections)
    same.push_back(std::async(std::launch::async, [fd = connection.get()] {
      const std::string sent(1'000'000, static_cast<char>('a' + fd % 26));
      std::future<std::string> back = std::async(std::launch::async, [fd] { return ReadAll(fd); });
      const bool is_sent = SendAll(fd, sent, [] { return false; });
      ::shutdown(fd, SHUT_WR);
      return is_sent && back.get() == sent;
    }));
  for (auto& one : same) CHECK(one.get());
}

TEST_CASE("task streams: Finish ends those that wait and those that nobody reads") {
  Node node;
  for (int round = 0; round < 200; ++round) {  // Each is another moment for the second stream.
    TaskStreams streams(8);
    const OwnedFd waits = Connect(streams, node);
    const OwnedFd unread = Connect(streams, node);
    const std::string some(4u << 20, 'x');
    auto stuck = std::async(std::launch::async,
                            [&] { return SendAll(unread.get(), some, [] { return false; }); });
    const std::string hello = "hello";
    REQUIRE(SendAll(waits.get(), hello, [] { return false; }));
    std::string heard(hello.size(), ' ');
    REQUIRE(::recv(waits.get(), heard.data(), heard.size(), MSG_WAITALL) == 5);
    auto finished = std::async(std::launch::async, [&] { streams.Finish(); });
    RT_CHECK_BECAUSE(finished.wait_for(std::chrono::minutes(2)) == std::future_status::ready,
                     "a cancelled call never ends");
    stuck.wait();
    CHECK(ReadAll(waits.get()).empty());
    CHECK(absl::IsCancelled(streams.Start([](TaskStreams::Stream&) {})));
  }
}

TEST_CASE("task streams: so many are open at most, and a stream that ended makes room") {
  Node node;
  TaskStreams streams(1);
  {
    const OwnedFd first = Connect(streams, node);
    CHECK(absl::IsResourceExhausted(streams.Start([](TaskStreams::Stream&) {})));
  }
  absl::Status next = absl::ResourceExhaustedError("");
  while (absl::IsResourceExhausted(next)) next = streams.Start([](TaskStreams::Stream&) {});
  CHECK(next.ok());
}

}  // namespace rt
