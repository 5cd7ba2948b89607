#include "cli/cloud/lease_renewer.h"

#include <algorithm>
#include <chrono>

#include "cli/cloud/cloud_file.h"
#include "common/run/files.h"

namespace rt {
namespace {

constexpr Millis kRenewRetry = 500;
constexpr Millis kRenewEveryMax = 15'000;
constexpr Millis kNever = -1;

}  // namespace

LeaseRenewer::LeaseRenewer(const Home& home, std::string cluster)
    : home_(home), cluster_(std::move(cluster)), thread_([this] { Run(); }) {}

LeaseRenewer::~LeaseRenewer() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    if (client_ != nullptr) client_->Cancel();
  }
  changed_.notify_all();
  thread_.join();
}

void LeaseRenewer::Run() {
  Millis next = 0;
  while (next != kNever) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::milliseconds(next), [this] { return stopping_; });
      if (stopping_) return;
    }
    next = Renew();
  }
}

// The time until the next call; kNever: this head waits for no client.
Millis LeaseRenewer::Renew() {
  const std::string directory = home_.ClusterDirectory(cluster_);
  if (!Exists(CloudFile(directory)) || !home_.IsUp(cluster_)) return kRenewRetry;
  absl::StatusOr<std::unique_ptr<HeadClient>> connected = ConnectTo(home_, cluster_);
  if (!connected.ok()) return kRenewRetry;
  const std::shared_ptr<HeadClient> client = *std::move(connected);
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return kNever;
    client_ = client;
  }
  const auto reply =
      client->Call<v1::ClusterService>(&v1::ClusterService::Stub::Attend, v1::Empty());
  {
    std::lock_guard lock(mutex_);
    client_ = nullptr;
  }
  if (!reply.ok()) return kRenewRetry;
  return reply->lease_ms() == 0 ? kNever
                                : std::clamp<Millis>(reply->lease_ms() / 4, 1, kRenewEveryMax);
}

}  // namespace rt
