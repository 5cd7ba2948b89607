#include "head/service/client_lease.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <future>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/clock.h"
#include "common/run/files.h"
#include "head/core/core.h"
#include "head/loop/head_loop.h"

namespace rt {
namespace {

constexpr Millis kLookEveryMax = 1'000;
constexpr Bytes kRecordMax = 64;

// Since when the client is missed, on the wall clock; 0: it was not.
Millis MissedAt(const std::string& record) {
  const absl::StatusOr<std::string> text = ReadFile(record, kRecordMax);
  Millis at = 0;
  if (text.ok()) std::from_chars(text->data(), text->data() + text->size(), at);
  return at;
}

// Pools that keep nothing: a machine goes as soon as nothing runs there and nothing on it is the
// only copy.
std::vector<PoolSpec> Emptied(std::vector<PoolSpec> pools) {
  for (PoolSpec& pool : pools) {
    pool.min_workers = 0;
    pool.idle_timeout = 0;
  }
  return pools;
}

}  // namespace

ClientLease::ClientLease(HeadLoop& loop, LeaseRules rules, std::vector<PoolSpec> pools,
                         std::string record, Acts acts)
    : loop_(loop), rules_(std::move(rules)), pools_(std::move(pools)), record_(std::move(record)),
      acts_(std::move(acts)), quiet_since_(SteadyClock()) {
  if (const Millis missed_at = MissedAt(record_); missed_at != 0)
    quiet_since_ -= rules_.lease + std::max<Millis>(0, WallClock() - missed_at);
  thread_ = std::thread([this] { Run(); });
}

ClientLease::~ClientLease() { Stop(); }

void ClientLease::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ClientLease::Renew() {
  std::lock_guard lock(mutex_);
  quiet_since_ = SteadyClock();
}

void ClientLease::Run() {
  const Millis every = std::min(kLookEveryMax, rules_.lease / 4);
  while (!is_over_) {
    Look(IsWorkOpen());
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(every), [this] { return stopping_; });
    if (stopping_) return;
  }
  acts_.end();
}

// True as well while results wait to be written.
bool ClientLease::IsWorkOpen() {
  bool is_open = false;
  std::promise<bool> answered;
  loop_.Query(
      [&is_open](const Core& core) {
        const Index& index = core.world.index;
        const auto& jobs = core.world.state.jobs;
        is_open = !index.open_experiments.empty() || !index.unflushed_experiments.empty() ||
                  std::any_of(jobs.begin(), jobs.end(),
                              [](const auto& job) { return job.second.end == JobEnd::kNone; });
      },
      [&answered](const absl::Status& status) { answered.set_value(status.ok()); });
  return !answered.get_future().get() || is_open;  // A head that is ending decides nothing.
}

void ClientLease::Look(bool is_open) {
  const Millis now = SteadyClock();
  Millis quiet = 0;
  {
    std::lock_guard lock(mutex_);
    if (is_open && !rules_.stops_work) quiet_since_ = now;
    quiet = now - quiet_since_;
  }
  const bool is_missed = quiet >= rules_.lease;
  if (is_missed != is_missed_) SetMissed(is_missed, quiet - rules_.lease, is_open);
  if (quiet < rules_.lease + rules_.keep) return;
  RT_LOG(kWarning) << "nobody has come for the results: the cluster ends itself";
  is_over_ = true;
}

void ClientLease::SetMissed(bool is_missed, Millis since, bool is_open) {
  is_missed_ = is_missed;
  if (is_missed) {
    RT_LOG(kWarning) << (is_open ? "the work is stopped" : "the work is over")
                     << ", and no client has called for " << rules_.lease / 1'000
                     << " s: the workers go, and this head ends after " << rules_.keep / 1'000
                     << " s more";
    if (is_open) acts_.stop_work();
  } else {
    RT_LOG(kInfo) << "there is a client or work again: the pools are as before";
  }
  const absl::Status noted =
      is_missed ? WriteFileAtomic(record_, std::to_string(WallClock() - since) + "\n")
                : RemoveTree(record_);
  if (!noted.ok()) {
    RT_LOG(kWarning) << MessageOf(noted);
  }
  loop_.Post(input::SetPools{is_missed ? Emptied(pools_) : pools_},
             [](const absl::Status&, const Answer&) {});
}

}  // namespace rt
