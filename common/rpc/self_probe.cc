#include "common/rpc/self_probe.h"

#include <grpcpp/generic/generic_stub.h>

#include <ctime>
#include <future>
#include <utility>

#include "common/base/log.h"
#include "common/rpc/channel.h"

namespace rt {
namespace {

// Goes on while the machine sleeps.
Millis BootClock() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return Millis{now.tv_sec} * 1'000 + now.tv_nsec / 1'000'000;
}

}  // namespace

SelfProbe::SelfProbe(SelfProbeOptions options, Credentials credentials,
                     std::function<void(const std::string& why)> on_dead)
    : options_(std::move(options)), credentials_(std::move(credentials)),
      on_dead_(std::move(on_dead)), thread_([this] { Run(); }) {}

SelfProbe::~SelfProbe() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    if (cancel_) cancel_();
  }
  changed_.notify_all();
  thread_.join();
}

void SelfProbe::Run() {
  ProbeCount count(options_.failures_max);
  for (;;) {
    const Millis waited_from = BootClock();
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::milliseconds(options_.every),
                        [this] { return stopping_; });
      if (stopping_) return;
    }
    const Millis begun = BootClock();
    const std::string wrong = Ask();
    if (std::lock_guard lock(mutex_); stopping_) return;
    if (!wrong.empty()) {
      RT_LOG(kWarning) << "this daemon's own port " << options_.address << " does not answer: "
                       << wrong;
    }
    // A pause that was too long: the machine slept, or we were not given the processor.
    const Millis overslept = begun - waited_from - options_.every;
    if (count.Add(wrong.empty(), BootClock() - begun + overslept, options_.timeout))
      return on_dead_(wrong);
  }
}

std::string SelfProbe::Ask() {
  auto channel = MakeNamedChannel(options_.address, credentials_, options_.server_name, true);
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(options_.timeout));
  context.set_wait_for_ready(true);
  grpc::ByteBuffer request(nullptr, 0), reply;
  std::promise<grpc::Status> answered;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return "";
    cancel_ = [&context] { context.TryCancel(); };
  }
  stub.UnaryCall(&context, options_.method, grpc::StubOptions(), &request, &reply,
                 [&answered](grpc::Status status) { answered.set_value(std::move(status)); });
  const grpc::Status status = answered.get_future().get();
  {
    std::lock_guard lock(mutex_);
    cancel_ = nullptr;
  }
  const bool is_silent = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
                         status.error_code() == grpc::StatusCode::UNAVAILABLE;
  return is_silent ? status.error_message() : "";
}

}  // namespace rt
