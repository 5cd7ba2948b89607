#include "cli/bridge/executor_dials.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <future>
#include <thread>

#include "common/base/limits_executors.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "common/rpc/task_stream.h"
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

struct ExecutorDials::Stream {
  int fd = -1;  // Of the driver's connection while it is open.
  OwnedFd listener;
  std::shared_ptr<grpc::Channel> channel;
  v1::TaskBytes first;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<v1::TaskBytes, v1::TaskBytes>> bytes;
  std::promise<absl::Status> connected;
};

ExecutorDials::~ExecutorDials() { Finish(); }

void ExecutorDials::Finish() {
  std::unique_lock lock(mutex_);
  finishing_ = true;
  for (Stream* stream : streams_) {
    stream->context.TryCancel();
    if (stream->fd >= 0) ::shutdown(stream->fd, SHUT_RDWR);
  }
  changed_.wait(lock, [this] { return streams_.empty(); });
}

absl::StatusOr<Json> ExecutorDials::Dial(const Json& request) {
  const int64_t executor = request.GetInt("executor");
  if (executor <= 0) return Invalid("executor_dial needs the executor's number");
  auto stream = std::make_unique<Stream>();
  stream->first.set_executor(static_cast<uint64_t>(executor));
  stream->first.set_session(request.GetString("session"));
  RT_ASSIGN_OR_RETURN(const std::string name, ListenAnywhere(stream->listener));
  stream->channel = client_.BulkChannel();
  std::future<absl::Status> connected = stream->connected.get_future();
  {
    std::lock_guard lock(mutex_);
    if (finishing_) return absl::CancelledError("the bridge ends");
    streams_.insert(stream.get());
  }
  std::thread([this, running = stream.release()] {
    Carry(*running);
    End(running);
  }).detach();
  const absl::Status status = connected.get();
  if (status.ok()) return Json::MakeObject({{"socket", name}});
  if (absl::IsUnavailable(status)) {  // The head may have another address by now.
    const absl::Status found = client_.Refresh();
    if (!found.ok()) return Annotate(status, MessageOf(found));
  }
  return status;
}

void ExecutorDials::Carry(Stream& stream) {
  const HeadClient::Registered registered(client_, &stream.context);
  const auto stub = v1::ExecutorService::NewStub(stream.channel);
  stream.bytes = stub->Dial(&stream.context);
  v1::TaskBytes piece;
  // A daemon that hangs must not keep the driver waiting: only this part has a bound in time.
  std::promise<void> answered;
  std::thread bound([&stream, is_answered = answered.get_future()] {
    if (is_answered.wait_for(std::chrono::milliseconds(limits::kTaskConnectMax)) !=
        std::future_status::ready)
      stream.context.TryCancel();
  });
  const bool is_connected = stream.bytes->Write(stream.first) && stream.bytes->Read(&piece);
  answered.set_value();
  bound.join();
  if (!is_connected) {
    absl::Status why = FromGrpc(stream.bytes->Finish());
    if (why.ok()) why = absl::UnavailableError("the executor closed the connection");
    return stream.connected.set_value(std::move(why));
  }
  stream.connected.set_value(absl::OkStatus());
  const auto is_over = [this] { return is_finishing(); };
  OwnedFd fd(AcceptOnce(stream.listener.get(), is_over));
  while (fd.get() >= 0 && !IsOfThisUser(fd.get()))
    fd.Reset(AcceptOnce(stream.listener.get(), is_over));
  stream.listener.Reset();
  if (fd.get() >= 0 && Take(stream, fd.get())) {
    std::thread out([&] { PumpOut(fd.get(), *stream.bytes); });
    if (!PumpIn(fd.get(), *stream.bytes, is_over)) stream.context.TryCancel();
    out.join();
  } else {
    stream.context.TryCancel();
  }
  Take(stream, -1);
  stream.bytes->WritesDone();
  stream.bytes->Finish();
}

bool ExecutorDials::Take(Stream& stream, int fd) {
  std::lock_guard lock(mutex_);
  stream.fd = fd;
  return !finishing_;
}

bool ExecutorDials::is_finishing() {
  std::lock_guard lock(mutex_);
  return finishing_;
}

void ExecutorDials::End(Stream* stream) {
  std::lock_guard lock(mutex_);
  streams_.erase(stream);
  delete stream;
  changed_.notify_all();
}

}  // namespace rt
