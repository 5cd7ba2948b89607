// Any bytes on a trial's socket, after a good hello or without one, and on its standard output: the
// daemon answers with lines of JSON and lives on.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "common/base/check.h"
#include "common/base/json.h"
#include "common/cas/mem_store.h"
#include "common/run/files.h"
#include "tests/temp_dir.h"
#include "worker/checkpoint/pusher.h"
#include "worker/session/trial_socket.h"

namespace rt::worker {
namespace {

class NoHead : public HeadCalls {
 public:
  absl::StatusOr<uint64_t> CommitCheckpoint(const Fence&, const SpoolRow&,
                                            const SafeCheckpoint&) override {
    return absl::FailedPreconditionError("stale");
  }
  absl::StatusOr<ReplicaDuty> RenewReplica(const ReplicaQuestion&) override {
    return absl::FailedPreconditionError("stale");
  }
  void DriverCall(const Fence&, std::string,
                  std::function<void(absl::StatusOr<std::string>)> done) override {
    done(std::string(R"({"ok":true,"result":{}})"));
  }
};

// One daemon's part for all inputs; an attempt for each.
struct Site {
  Site()
      : trees(directory + "/checkpoints", {}),
        pool(2, 64),
        pushes(store, head, trees, [] {}),
        socket(head, store, pushes, pool) {
    pushes.Start();
    socket.Start();
  }
  ~Site() {
    socket.Stop();
    pool.Stop();
    pushes.Stop();
  }
  TempDir dir{"fuzz"};
  const std::string& directory = dir.path();
  NoHead head;
  MemStore store;
  LocalTrees trees;
  IoPool pool;
  CheckpointPusher pushes;
  TrialSocket socket;
  uint32_t number = 0;
};

int Dial(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  RT_CHECK(fd >= 0);
  RT_CHECK(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

void Converse(const std::string& path, const std::string& said) {
  const int fd = Dial(path);
  std::string_view left = said;
  while (!left.empty()) {
    const ssize_t count = ::send(fd, left.data(), left.size(), MSG_NOSIGNAL);
    if (count <= 0) break;
    left.remove_prefix(static_cast<size_t>(count));
  }
  ::shutdown(fd, SHUT_WR);
  std::string heard;
  char buffer[4096];
  for (ssize_t count = 0; (count = ::recv(fd, buffer, sizeof buffer, 0)) > 0;)
    heard.append(buffer, static_cast<size_t>(count));
  ::close(fd);
  for (size_t at = 0, end = 0; (end = heard.find('\n', at)) != std::string::npos; at = end + 1)
    RT_CHECK(Json::Parse(std::string_view(heard).substr(at, end - at)).ok());
}

void One(const uint8_t* data, size_t size) {
  static Site* site = new Site();  // For the process: its threads are.
  LaunchBody body;
  body.fence = {{Owner::Of(TrialId{{1}, 0}), ++site->number, 1}, 0};
  body.token = "secret";
  const RunDir dir{site->directory + "/" + std::to_string(site->number)};
  std::filesystem::create_directories(dir.path);
  const std::string text(reinterpret_cast<const char*>(data), size);
  RT_CHECK(WriteFileAtomic(dir.path + "/stdout.000000000000.log", text, {.sync = false}).ok());
  auto live = LiveAttempt::Open(body, dir, {.on_row = [](bool) {}, .on_closed = [] {}});
  RT_CHECK(live.ok());
  const std::string path = dir.path + "/socket";
  RT_CHECK(site->socket.Listen(*live, path).ok());
  Converse(path, text);
  Converse(path, "{\"op\":\"hello\",\"token\":\"secret\"}\n" + text);
  while (!(*live)->PumpStdout(true)) {
  }
  site->socket.Close(body.fence);
  std::error_code ignored;  // The daemon removes the socket meanwhile.
  std::filesystem::remove_all(dir.path, ignored);
}

}  // namespace
}  // namespace rt::worker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rt::worker::One(data, size);
  return 0;
}
