#include "cli/bridge/executor_dials.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <future>
#include <limits>
#include <thread>

#include "common/base/limits_executors.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "common/run/owned_fd.h"
#include "rt/v1/task.grpc.pb.h"

namespace rt {
namespace {

// Listens at a free name of the abstract namespace, which the kernel chooses. Returns the name with
// "@" in place of its first byte, which is zero.
absl::StatusOr<std::string> ListenAnywhere(OwnedFd& listener) {
  listener.Reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (listener.get() < 0) return ErrnoStatus(errno, "socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socklen_t size = sizeof address.sun_family;
  if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0)
    return ErrnoStatus(errno, "bind");
  size = sizeof address;
  if (::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return ErrnoStatus(errno, "listen");
  const size_t used = size - offsetof(sockaddr_un, sun_path);
  return "@" + std::string(address.sun_path + 1, used - 1);
}

// Anybody on this machine may connect to a name in the abstract namespace.
bool IsOfThisUser(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

}  // namespace

struct ExecutorDials::Dialled {
  OwnedFd listener;
  std::shared_ptr<grpc::Channel> channel;
  v1::TaskBytes first;
  std::promise<absl::Status> connected;
};

// The head has a bound for each user, and says so.
ExecutorDials::ExecutorDials(HeadClient& client)
    : client_(client), streams_(std::numeric_limits<size_t>::max()) {}

absl::StatusOr<Json> ExecutorDials::Dial(const Json& request) {
  const int64_t executor = request.GetInt("executor");
  if (executor <= 0) return Invalid("executor_dial needs the executor's number");
  auto dialled = std::make_shared<Dialled>();
  dialled->first.set_executor(static_cast<uint64_t>(executor));
  dialled->first.set_session(request.GetString("session"));
  RT_ASSIGN_OR_RETURN(const std::string name, ListenAnywhere(dialled->listener));
  dialled->channel = client_.BulkChannel();
  std::future<absl::Status> connected = dialled->connected.get_future();
  RT_RETURN_IF_ERROR(
      streams_.Start([this, dialled](TaskStreams::Stream& stream) { Run(*dialled, stream); }));
  const absl::Status status = connected.get();
  if (status.ok()) return Json::MakeObject({{"socket", name}});
  if (absl::IsUnavailable(status)) {  // The head may have another address by now.
    const absl::Status found = client_.Refresh();
    if (!found.ok()) return Annotate(status, MessageOf(found));
  }
  return status;
}

void ExecutorDials::Run(Dialled& dialled, TaskStreams::Stream& stream) {
  const HeadClient::Registered registered(client_, &stream.context);
  const auto stub = v1::ExecutorService::NewStub(dialled.channel);
  stream.bytes = stub->Dial(&stream.context);
  v1::TaskBytes piece;
  // A daemon that hangs must not keep the driver waiting: only this part has a bound in time.
  std::promise<void> answered;
  std::thread bound([&stream, is_answered = answered.get_future()] {
    if (is_answered.wait_for(std::chrono::milliseconds(limits::kTaskConnectMax)) !=
        std::future_status::ready)
      stream.context.TryCancel();
  });
  const bool is_connected = stream.bytes->Write(dialled.first) && stream.bytes->Read(&piece);
  answered.set_value();
  bound.join();
  if (!is_connected) {
    absl::Status why = FromGrpc(stream.bytes->Finish());
    if (why.ok()) why = absl::UnavailableError("the executor closed the connection");
    return dialled.connected.set_value(std::move(why));
  }
  dialled.connected.set_value(absl::OkStatus());
  const auto is_over = [this] { return streams_.is_finishing(); };
  OwnedFd fd(AcceptOnce(dialled.listener.get(), is_over));
  while (fd.get() >= 0 && !IsOfThisUser(fd.get()))
    fd.Reset(AcceptOnce(dialled.listener.get(), is_over));
  dialled.listener.Reset();
  streams_.Carry(stream, fd.get());
}

}  // namespace rt
