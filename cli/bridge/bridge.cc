#include "cli/bridge/bridge.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "cli/bridge/executor_dials.h"
#include "common/base/status.h"

namespace rt {
namespace {

constexpr int kTickMs = 500;

sigset_t EndSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

Json WithId(const Json& id, Json answer) {
  if (!id.is_null()) answer.Set("id", id);
  return answer;
}

class Bridge {
 public:
  explicit Bridge(HeadClient& client) : client_(client), dials_(client) {}

  void Take(const std::string& line) {
    absl::StatusOr<Json> request = Json::Parse(line);
    if (!request.ok() || !request->is_object()) {
      Write(BridgeAnswer(Json(), Invalid("not a JSON object: " + MessageOf(request.status()))));
      return;
    }
    const Json* found = request->Find("id");
    Json id = found == nullptr ? Json() : *found;
    bool wait = IsWait(*request);
    {
      std::unique_lock lock(mutex_);
      if (wait && waits_ >= kBridgeWaitsMax) {
        lock.unlock();
        Write(BridgeAnswer(id, absl::ResourceExhaustedError("too many waits in flight")));
        return;
      }
      changed_.wait(lock, [&] { return running_ < kBridgeRequestsMax; });
      ++running_;
      waits_ += wait ? 1 : 0;
    }
    std::thread([this, id, wait, body = *std::move(request)] {
      const bool is_dial = body.GetString("op") == "executor_dial";
      Write(BridgeAnswer(id, is_dial ? dials_.Dial(body) : Operate(client_, body)));
      std::lock_guard lock(mutex_);
      --running_;
      waits_ -= wait ? 1 : 0;
      changed_.notify_all();
    }).detach();
  }

  // Ends what is in flight and waits for it: no thread outlives this object.
  void Finish() {
    client_.Cancel();
    dials_.Finish();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running_ == 0; });
  }

 private:
  void Write(const Json& answer) {
    std::string text = answer.Dump() + "\n";
    std::lock_guard lock(write_mutex_);
    size_t done = 0;
    while (done < text.size()) {
      ssize_t count = write(1, text.data() + done, text.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return;  // Nobody reads; the end of input follows.
      done += static_cast<size_t>(count);
    }
  }

  HeadClient& client_;
  ExecutorDials dials_;
  std::mutex write_mutex_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int running_ = 0, waits_ = 0;
};

// Hands every whole line of `buffer` to the bridge; what is left stays.
void TakeLines(Bridge& bridge, std::string& buffer) {
  size_t start = 0;
  while (true) {
    size_t end = buffer.find('\n', start);
    if (end == std::string::npos) break;
    std::string line = buffer.substr(start, end - start);
    if (!line.empty()) bridge.Take(line);
    start = end + 1;
  }
  buffer.erase(0, start);
}

absl::Status ReadRequests(Bridge& bridge, int signals, const std::function<void()>& tick) {
  std::string buffer;
  std::string piece(65'536, '\0');
  pollfd watched[2] = {{0, POLLIN, 0}, {signals, POLLIN, 0}};
  while (true) {
    int ready = poll(watched, 2, kTickMs);
    if (ready < 0 && errno != EINTR) return ErrnoStatus(errno, "poll");
    if (ready <= 0) {
      tick();
      continue;
    }
    if (watched[1].revents != 0) return absl::OkStatus();
    if (watched[0].revents == 0) continue;
    ssize_t count = read(0, piece.data(), piece.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) return absl::OkStatus();
    buffer.append(piece.data(), static_cast<size_t>(count));
    TakeLines(bridge, buffer);
    if (buffer.size() > kBridgeLineMax) return Invalid("a request longer than 64 MiB");
  }
}

}  // namespace

void BlockBridgeSignals() {
  sigset_t set = EndSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Json BridgeAnswer(const Json& id, const absl::StatusOr<Json>& result) {
  if (result.ok()) return WithId(id, Json::MakeObject({{"ok", true}, {"result", *result}}));
  std::string hint = HintOf(result.status());
  Json error = Json::MakeObject({{"code", absl::StatusCodeToString(result.status().code())},
                                 {"message", MessageOf(result.status())},
                                 {"hint", hint.empty() ? Json() : Json(hint)}});
  return WithId(id, Json::MakeObject({{"ok", false}, {"error", std::move(error)}}));
}

Json BridgeRefusal(const absl::Status& status) { return BridgeAnswer(Json(), status); }

absl::Status ServeBridge(HeadClient& client, const std::function<void()>& tick) {
  sigset_t set = EndSignals();
  int signals = signalfd(-1, &set, SFD_CLOEXEC);
  if (signals < 0) return ErrnoStatus(errno, "signalfd");
  Bridge bridge(client);
  absl::Status status = ReadRequests(bridge, signals, tick);
  bridge.Finish();
  close(signals);
  return status;
}

}  // namespace rt
