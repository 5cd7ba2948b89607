#include "worker/link/executor_relay.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "common/base/limits_executors.h"
#include "common/base/status.h"
#include "common/base/status_code.h"
#include "common/base/strings.h"
#include "common/rpc/channel.h"
#include "common/run/owned_fd.h"
#include "common/run/random.h"
#include "common/run/unix_address.h"
#include "rt/v1/task.grpc.pb.h"
#include "worker/launch/node_rules.h"

namespace rt::worker {
namespace {

constexpr const char* kTaskSocket = "/trial/tasks.sock";

// A state directory may have a longer path than an address takes: it goes through a descriptor.
absl::StatusOr<int> ConnectToTasks(const std::string& run_dir) {
  const OwnedFd folder(::open((run_dir + "/trial").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const absl::Status gone = NotFound("no such executor runs here, or it listens no more");
  if (folder.get() < 0) return gone;
  RT_ASSIGN_OR_RETURN(const sockaddr_un address,
                      UnixAddress("/proc/self/fd/" + std::to_string(folder.get()) + "/tasks.sock"));
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return ErrnoStatus(errno, "socket");
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  ::close(fd);
  return gone;
}

class TaskService final : public v1::TaskService::Service {
 public:
  TaskService(std::string state_dir, std::function<absl::Status(const grpc::ServerContext&)> admit)
      : state_dir_(std::move(state_dir)), admit_(std::move(admit)) {}

  grpc::Status Dial(grpc::ServerContext* context,
                    grpc::ServerReaderWriter<v1::TaskBytes, v1::TaskBytes>* stream) override {
    if (const absl::Status refused = admit_(*context); !refused.ok()) return ToGrpc(refused);
    const Counted place(open_);
    if (place.number > limits::kTaskStreamsOfNode)
      return ToGrpc(absl::ResourceExhaustedError(std::to_string(limits::kTaskStreamsOfNode) +
                                                 " streams to executors here are open"));
    v1::TaskBytes first;
    if (!stream->Read(&first)) return grpc::Status::OK;
    const std::optional<Fence> fence = ParseFence(first.run());
    if (!fence || !RulesOf(fence->attempt.owner).takes_connections)
      return ToGrpc(Invalid("'" + first.run() + "' is no run of an executor"));
    const absl::StatusOr<int> connected =
        ConnectToTasks(state_dir_ + "/attempts/" + rt::ToString(*fence));
    if (!connected.ok()) return ToGrpc(connected.status());
    const OwnedFd fd(*connected);
    stream->Write(v1::TaskBytes());  // It is connected.
    std::thread in([&] { PumpIn(fd.get(), *stream, [&] { return context->IsCancelled(); }); });
    PumpOut(fd.get(), *stream);
    in.join();
    return grpc::Status::OK;
  }

 private:
  struct Counted {
    explicit Counted(std::atomic<size_t>& all) : count(all), number(++all) {}
    ~Counted() { --count; }
    Counted(const Counted&) = delete;
    std::atomic<size_t>& count;
    const size_t number;
  };
  const std::string state_dir_;
  const std::function<absl::Status(const grpc::ServerContext&)> admit_;
  std::atomic<size_t> open_ = 0;
};

// The head's answer to a driver operation.
absl::StatusOr<Json> RouteFrom(const absl::StatusOr<std::string>& answer) {
  RT_RETURN_IF_ERROR(answer.status());
  RT_ASSIGN_OR_RETURN(Json json, Json::Parse(*answer));
  if (json.GetBool("ok") && json.Find("result") != nullptr) return *json.Find("result");
  const Json* error = json.Find("error");
  if (error == nullptr)
    return absl::InternalError("the head's answer has neither result nor error");
  const absl::StatusCode code = ErrorCodeNamed(error->GetString("code"));
  return WithHint(absl::Status(code, ToAbsl(error->GetString("message"))),
                  error->GetString("hint"));
}

}  // namespace

ExecutorRelay::ExecutorRelay(HeadCalls& head, IoPool& pool, FindPeer find_peer, Place place)
    : head_(head), pool_(pool), find_peer_(std::move(find_peer)), place_(std::move(place)),
      streams_(limits::kTaskStreamsOfNode) {}

void ExecutorRelay::Dial(const Fence& from, const Json& call,
                         std::function<void(absl::StatusOr<Json>)> done) {
  const Json ask = Json::MakeObject({{"op", "executor_route"}, {"executor", call.GetInt("id")}});
  head_.DriverCall(
      from, ask.Dump(), [this, done = std::move(done)](const absl::StatusOr<std::string>& answer) {
        absl::StatusOr<Json> route = RouteFrom(answer);
        if (!route.ok()) return done(route.status());
        const bool taken = pool_.TrySubmit([this, route = *route, done] { done(Open(route)); });
        if (!taken) done(absl::ResourceExhaustedError("too much at once"));
      });
}

absl::StatusOr<Json> ExecutorRelay::Open(const Json& route) {
  const auto node = static_cast<uint64_t>(route.GetInt("node"));
  if (node == place_.node)
    return Json::MakeObject({{"socket", route.GetString("run_dir") + kTaskSocket}});
  RT_ASSIGN_OR_RETURN(const auto channel, find_peer_(node));
  const std::string path = place_.runtime_dir + "/dial-" + RandomHex(6);
  RT_ASSIGN_OR_RETURN(const int listening, ListenOnce(path));
  const auto listener = std::make_shared<OwnedFd>(listening);
  const auto run = [this, channel, listener, path,
                    run = route.GetString("run")](TaskStreams::Stream& stream) {
    const OwnedFd fd(AcceptOnce(listener->get(), [this] { return streams_.is_finishing(); }));
    listener->Reset();
    ::unlink(path.c_str());
    if (fd.get() < 0) return;
    const auto stub = v1::TaskService::NewStub(channel);
    stream.bytes = stub->Dial(&stream.context);
    v1::TaskBytes piece;
    piece.set_run(run);
    // The first answer says that it is connected there; without it the driver sees the end.
    const bool is_connected = stream.bytes->Write(piece) && stream.bytes->Read(&piece);
    streams_.Carry(stream, is_connected ? fd.get() : -1);
  };
  if (absl::Status started = streams_.Start(run); !started.ok()) {
    ::unlink(path.c_str());
    return started;
  }
  return Json::MakeObject({{"socket", path}});
}

std::unique_ptr<grpc::Service> MakeTaskService(
    std::string state_dir, std::function<absl::Status(const grpc::ServerContext&)> admit) {
  return std::make_unique<TaskService>(std::move(state_dir), std::move(admit));
}

}  // namespace rt::worker
