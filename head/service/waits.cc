#include "head/service/waits.h"

#include <algorithm>

#include "common/base/busy.h"

namespace rt {
namespace {
// Long enough to make polling cheap, short enough for proxies and clients that come and go.
constexpr Millis kHoldMax = 30'000;

const char* NameOf(WaitRole role) {
  switch (role) {
    case WaitRole::kPerson: return "people and their programs";
    case WaitRole::kDriver: return "drivers";
    case WaitRole::kLog: return "readers of logs";
  }
  return "";
}
}  // namespace

Waits::Waits(HeadLoop& loop, const Settings& settings, std::chrono::milliseconds interval)
    : loop_(loop), settings_(settings), interval_(interval), thread_([this] { Run(); }) {}

Waits::~Waits() {
  Close();
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return in_flight_ == 0; });
  }
  thread_.join();
}

void Waits::Add(WaitRole role, Check check, Millis hold, JsonDone done) {
  auto parked = std::make_shared<Parked>();
  parked->role = role;
  parked->check = std::move(check);
  parked->until = Clock::now() + std::chrono::milliseconds(std::clamp<Millis>(hold, 0, kHoldMax));
  parked->done = std::move(done);
  absl::Status refused;
  {
    std::lock_guard lock(mutex_);
    if (closed_) refused = absl::UnavailableError("the head is ending");
    size_t& count = counts_[static_cast<size_t>(role)];
    if (count >= kParkedPerRole)
      refused = BusyError(std::to_string(count) + " waits of " + NameOf(role) +
                          " are parked, the most that this head keeps");
    if (refused.ok()) {
      parked_[parked.get()] = parked;
      ++count;
      ++in_flight_;
    }
  }
  if (!refused.ok()) return parked->done(refused);
  Probe({parked});
}

void Waits::Changed() {
  std::lock_guard lock(mutex_);
  if (parked_.empty()) return;
  dirty_ = true;
  changed_.notify_all();
}

void Waits::Close() {
  Group all;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    for (auto& [key, parked] : parked_) all.push_back(parked);
    parked_.clear();
    counts_ = {};
  }
  for (auto& parked : all) parked->done(absl::UnavailableError("the head is ending"));
}

void Waits::Probe(Group group) {
  // Two probes of one wait may overlap; each keeps its own answers, and the first one takes it.
  auto answers = std::make_shared<std::vector<std::optional<absl::StatusOr<Json>>>>(group.size());
  loop_.Query(
      [this, group, answers](const Core& core) {
        HeadFacts facts = settings_.FactsNow(loop_);
        auto now = Clock::now();
        for (size_t i = 0; i < group.size(); ++i)
          (*answers)[i] = group[i]->check(core, facts, now >= group[i]->until);
      },
      [this, group, answers](absl::Status status) {
        Group ready;
        {
          std::lock_guard lock(mutex_);
          for (size_t i = 0; i < group.size(); ++i) {
            if (status.ok() && !(*answers)[i]) continue;
            if (parked_.erase(group[i].get()) == 0) continue;
            --counts_[static_cast<size_t>(group[i]->role)];
            group[i]->answer = std::move((*answers)[i]);
            ready.push_back(group[i]);
          }
        }
        Deliver(ready, status);
        std::lock_guard lock(mutex_);
        --in_flight_;
        changed_.notify_all();
      });
}

void Waits::Deliver(const Group& group, const absl::Status& status) {
  for (const auto& parked : group) {
    if (!status.ok()) parked->done(status);
    else parked->done(std::move(*parked->answer));
  }
}

void Waits::Run() {
  std::unique_lock lock(mutex_);
  auto earliest = [&] {
    auto until = Clock::now() + std::chrono::hours(1);
    for (auto& [key, parked] : parked_) until = std::min(until, parked->until);
    return until;
  };
  while (!stopping_) {
    auto until = earliest();
    if (!dirty_ && Clock::now() < until) {
      changed_.wait_until(lock, until);
      continue;
    }
    dirty_ = false;
    Group all;
    for (auto& [key, parked] : parked_) all.push_back(parked);
    if (!all.empty()) {
      ++in_flight_;
      lock.unlock();
      Probe(std::move(all));
      lock.lock();
    }
    changed_.wait_for(lock, interval_, [&] { return stopping_; });
  }
}

}  // namespace rt
