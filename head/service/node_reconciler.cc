#include "head/service/node_reconciler.h"

#include <algorithm>
#include <chrono>
#include <future>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/run/failpoint.h"

namespace rt {
namespace {

constexpr Millis kTerminateRetry = 2'000;
constexpr Millis kListRetry = 1'000;
constexpr Millis kCloseEvery = 15'000;

}  // namespace

NodeReconciler::NodeReconciler(Parts parts, std::vector<PoolSpec> pools)
    : parts_(std::move(parts)) {
  for (PoolSpec& pool : pools) pools_[pool.name] = std::move(pool);
  parts_.loop.machine_watch().Listen([this] {
    std::lock_guard lock(mutex_);
    has_news_ = true;
    changed_.notify_all();
  });
  thread_ = std::thread([this] { Run(); });
}

NodeReconciler::~NodeReconciler() {
  parts_.loop.machine_watch().Listen(nullptr);
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return jobs_ == 0; });
}

void NodeReconciler::Run() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::milliseconds(limits::kReconcileEvery),
                        [this] { return stopping_ || has_news_; });
      if (stopping_) return;
      has_news_ = false;
    }
    Seen seen;
    if (Look(seen)) Act(seen);
  }
}

// What it sees is durable when it returns; false when the head is ending.
bool NodeReconciler::Look(Seen& seen) {
  ScalingView before, view;
  std::promise<absl::Status> durable;
  parts_.loop.Query(
      [&](const Core& core) {
        seen.now = core.soft.last_step_at;
        seen.wishes = WishesOf(core, seen.now);
        if (!has_looked_) before = ScalingViewAtStart(core);
        view = ScalingViewOf(core);
      },
      [&](absl::Status status) { durable.set_value(std::move(status)); });
  if (!durable.get_future().get().ok()) return false;
  if (!has_looked_) parts_.news.See(std::move(before));
  has_looked_ = true;
  parts_.news.See(std::move(view));
  return true;
}

void NodeReconciler::Act(const Seen& seen) {
  std::unique_lock lock(mutex_);
  now_ = seen.now;
  if (first_now_ == 0) first_now_ = seen.now;
  const bool is_unsure = listed_at_ == 0 || !unclear_.empty() || seen.wishes.needs_list;
  const Millis every = is_unsure ? kListRetry : limits::kMachineListEvery;
  const bool is_due = listed_at_ == 0 || seen.now - listed_at_ >= every;
  if (!is_listing_ && is_due && seen.now >= list_again_at_) List(seen.now);
  if (!is_closing_ && (closed_at_ == 0 || seen.now - closed_at_ >= kCloseEvery)) CloseExpired();
  if (listed_at_ == 0) return;  // What an earlier head asked for is not known yet.
  for (const CreateWish& wish : seen.wishes.create)
    if (!creating_.contains(wish.pool) && !unclear_.contains(wish.pool)) Create(wish);
  if (!is_terminating_ && !seen.wishes.terminate.empty() && seen.now >= terminate_again_at_)
    Terminate(seen.wishes.terminate);
}

// With the lock, as List, Create and Terminate. The job ends with one call of Settle.
void NodeReconciler::Start(std::function<void()> job) {
  ++jobs_;
  parts_.io(std::move(job));
}

void NodeReconciler::Settle(const std::function<void()>& change) {
  std::lock_guard lock(mutex_);
  change();
  --jobs_;
  changed_.notify_all();
}

// `settled` follows when the input is durable, or was not taken: then the same call follows.
void NodeReconciler::Post(Input input, std::function<void(bool taken)> settled) {
  parts_.loop.Post(std::move(input),
                   [this, settled = std::move(settled)](const absl::Status& status, const Answer&) {
                     Settle([&] { settled(status.ok()); });
                   });
}

void NodeReconciler::List(Millis now) {
  is_listing_ = true;
  Start([this, now, unclear = unclear_] {
    absl::StatusOr<std::vector<MadeMachine>> machines = parts_.provider.List();
    if (!machines.ok()) {
      RT_LOG(kWarning) << "the provider cannot list its machines: " << MessageOf(machines.status());
      return Settle([this] {
        is_listing_ = false;
        list_again_at_ = now_ + kListRetry;
      });
    }
    // Clocks of heads differ: what an earlier head confirmed was confirmed before this one began.
    const Millis lag = parts_.provider.list_lag();
    input::MachinesListed listed{.machines = {},
                                 .complete_before = now - first_now_ < lag ? 0 : now - lag};
    for (const MadeMachine& machine : *machines)
      listed.machines.push_back({machine.number, machine.id, machine.pool});
    Post(std::move(listed), [this, now, unclear](bool taken) {
      is_listing_ = false;
      if (!taken) return;
      listed_at_ = now;
      for (const std::string& pool : unclear) unclear_.erase(pool);
    });
  });
}

void NodeReconciler::CloseExpired() {
  is_closing_ = true;
  Start([this] {
    const absl::Status closed = parts_.provider.CloseExpired();
    if (!closed.ok()) {
      RT_LOG(kWarning) << "what a client left open cannot be closed: " << MessageOf(closed);
    }
    Settle([this] {
      is_closing_ = false;
      closed_at_ = now_;
    });
  });
}

void NodeReconciler::Create(const CreateWish& wish) {
  const auto pool = pools_.find(wish.pool);
  if (pool == pools_.end()) return;  // The core releases its machines.
  CreateCall call{.pool = wish.pool, .each = pool->second.each};
  for (uint64_t number : wish.machines) call.machines.push_back({number, MachineName(number)});
  creating_.insert(wish.pool);
  Start([this, call = std::move(call), request = wish.request] {
    ReachFailpoint("head.provider.before_create");
    absl::StatusOr<std::vector<MadeMachine>> made = parts_.provider.Create(call);
    ReachFailpoint("head.provider.after_create");
    const auto settled = [this, pool = call.pool](bool) { creating_.erase(pool); };
    if (!made.ok()) {
      const ProviderError error = ProviderErrorOf(made.status());
      RT_LOG(kWarning) << "pool " << call.pool << ": " << NameOf(error) << ": "
                       << MessageOf(made.status());
      const bool is_unclear = error == ProviderError::kRetryLater;
      return Post(input::MachinesFailed{request, error, MessageOf(made.status())},
                  [this, settled, is_unclear, pool = call.pool](bool taken) {
                    if (is_unclear) unclear_.insert(pool);
                    settled(taken);
                  });
    }
    input::MachinesCreated created{.request = request};
    for (const MadeMachine& machine : *made)
      created.machines.push_back({machine.number, machine.id});
    const bool is_whole = made->size() >= call.machines.size();
    if (is_whole)
      return Post(std::move(created), [settled](bool taken) {
        ReachFailpoint("head.provider.after_created");
        settled(taken);
      });
    parts_.loop.Post(std::move(created), [](const absl::Status&, const Answer&) {});
    Post(input::MachinesFailed{request, ProviderError::kCapacity,
                               "only " + std::to_string(made->size()) + " of " +
                                   std::to_string(call.machines.size()) + " machines were made"},
         settled);
  });
}

void NodeReconciler::Terminate(const std::vector<TerminateWish>& wishes) {
  is_terminating_ = true;
  Start([this, wishes] {
    std::vector<std::string> ids;
    input::MachinesTerminated terminated;
    for (const TerminateWish& wish : wishes) {
      ids.push_back(wish.id);
      terminated.machines.push_back(wish.machine);
    }
    ReachFailpoint("head.provider.before_terminate");
    const absl::Status status = parts_.provider.Terminate(ids);
    ReachFailpoint("head.provider.after_terminate");
    if (status.ok())
      return Post(std::move(terminated), [this](bool) {
        ReachFailpoint("head.provider.after_terminated");
        is_terminating_ = false;
      });
    RT_LOG(kWarning) << "the provider cannot remove machines: " << MessageOf(status);
    Settle([this] {
      is_terminating_ = false;
      terminate_again_at_ = now_ + kTerminateRetry;
    });
  });
}

}  // namespace rt
