// Streams to the executors of a node, over a real port.
#include <grpcpp/grpcpp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <vector>

#include "common/base/limits_executors.h"
#include "common/rpc/channel.h"
#include "common/run/files.h"
#include "rt/v1/task.grpc.pb.h"
#include "tests/temp_dir.h"
#include "worker/link/executor_relay.h"

namespace rt::worker {
namespace {

// Where an executor listens; its connections wait in the queue.
int ListenAt(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  REQUIRE(path.size() < sizeof address.sun_path);
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(fd, 2 * static_cast<int>(limits::kTaskStreamsOfNode)) == 0);
  return fd;
}

struct OpenStream {
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<v1::TaskBytes, v1::TaskBytes>> bytes;
};

TEST_CASE("a node takes as many streams to its executors as its limit says, and says so after") {
  const TempDir state("relay");
  const std::string run = ToString(Fence{{Owner::Of(ExecutorId{7}), 1, 1}, 0});
  const std::string trial = state.path() + "/attempts/" + run + "/trial";
  REQUIRE(EnsureDirectory(trial).ok());
  const int listener = ListenAt(trial + "/tasks.sock");
  const std::unique_ptr<grpc::Service> service =
      MakeTaskService(state.path(), [](const grpc::ServerContext&) { return absl::OkStatus(); });
  grpc::ServerBuilder builder;
  ConfigureServer(builder);
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(service.get());
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  REQUIRE(server != nullptr);
  const auto stub = v1::TaskService::NewStub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  v1::TaskBytes first, piece;
  first.set_run(run);
  std::vector<std::unique_ptr<OpenStream>> open;
  for (size_t number = 1; number <= limits::kTaskStreamsOfNode; ++number) {
    INFO("stream " << number);
    open.push_back(std::make_unique<OpenStream>());
    open.back()->context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
    open.back()->bytes = stub->Dial(&open.back()->context);
    REQUIRE(open.back()->bytes->Write(first));
    REQUIRE(open.back()->bytes->Read(&piece));  // It is connected.
  }
  OpenStream more;
  more.bytes = stub->Dial(&more.context);
  more.bytes->Write(first);
  CHECK_FALSE(more.bytes->Read(&piece));
  const grpc::Status refused = more.bytes->Finish();
  CHECK(refused.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  CHECK(refused.error_message().find("256 streams to executors here are open") == 0);
  for (const auto& one : open) one->context.TryCancel();
  for (const auto& one : open) {
    while (one->bytes->Read(&piece)) continue;
    one->bytes->Finish();
  }
  ::close(listener);
  server->Shutdown();
}

}  // namespace
}  // namespace rt::worker
