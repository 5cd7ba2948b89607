#include "worker/checkpoint/replica_uploader.h"

#include <algorithm>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/tree.h"
#include "common/run/failpoint.h"

namespace rt::worker {
namespace {

constexpr Millis kLookEvery = 1'000;      // Another node pushes it, or nobody answers.
constexpr Millis kPauseForSpace = 5'000;  // As CheckpointPusher's.
constexpr std::chrono::seconds kSayEvery{60};
// The node that requested the replica renews that every 30 s until it is committed (pusher.cc).
constexpr std::chrono::seconds kCommitWithin{90};

}  // namespace

ReplicaUploader::ReplicaUploader(BlobStore& store, HeadCalls& head, LocalTrees& trees,
                                 std::function<void()> on_done)
    : store_(store), head_(head), trees_(trees), on_done_(std::move(on_done)) {}

ReplicaUploader::~ReplicaUploader() { Stop(); }

void ReplicaUploader::Start() {
  const Time now = std::chrono::steady_clock::now();
  for (const LocalTrees::Replica& replica : trees_.Replicas()) {
    const Key key{replica.fence, replica.manifest};
    std::lock_guard lock(mutex_);
    if (entries_.contains(key)) continue;
    entries_[key] = {.order = next_order_++, .added_at = now, .sure_at = now + kCommitWithin};
  }
  asker_ = std::thread([this] { AskAll(); });
  pusher_ = std::thread([this] { PushAll(); });
}

void ReplicaUploader::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread* thread : {&asker_, &pusher_})
    if (thread->joinable()) thread->join();
}

// The same bytes may be saved again while the first still wait: that adds nothing.
void ReplicaUploader::Expect(const Fence& fence, const std::string& manifest) {
  std::lock_guard waits(releasing_);
  std::lock_guard lock(mutex_);
  const auto [entry, is_new] = entries_.try_emplace({fence, manifest});
  if (is_new) entry->second = {.order = next_order_++, .is_expected = true};
  entry->second.round = next_order_++;
}

ReplicaUploader::Entry& ReplicaUploader::Known(const Fence& fence, const std::string& manifest) {
  Entry& entry = entries_[{fence, manifest}];
  if (entry.order == 0) entry.order = next_order_++;
  if (std::exchange(entry.is_expected, false) || entry.added_at == Time())
    entry.added_at = std::chrono::steady_clock::now();
  return entry;
}

void ReplicaUploader::Add(const Fence& fence, const std::string& manifest, double worth) {
  {
    std::lock_guard lock(mutex_);
    Entry& entry = Known(fence, manifest);
    entry.worth = worth;
    entry.sure_at = Time();
    entry.commit_pending = false;
    entry.is_wanted = true;
    // It may have taken the place of another.
    for (auto& [key, one] : entries_)
      if (key.first.attempt.owner == fence.attempt.owner) one.ask_at = Time();
  }
  changed_.notify_all();
}

void ReplicaUploader::AddUnsure(const Fence& fence, const std::string& manifest, uint64_t row) {
  {
    std::lock_guard lock(mutex_);
    Entry& entry = Known(fence, manifest);
    entry.sure_at = std::chrono::steady_clock::now() + kCommitWithin;
    entry.row = row;
  }
  changed_.notify_all();
}

void ReplicaUploader::Drop(const Fence& fence, const std::string& manifest) {
  {
    std::lock_guard waits(releasing_);
    {
      std::lock_guard lock(mutex_);
      auto found = entries_.find({fence, manifest});
      if (found == entries_.end() || !found->second.is_expected) return;
      entries_.erase(found);
    }
    trees_.Release(fence, manifest);
  }
  on_done_();
}

size_t ReplicaUploader::CountOf(const Fence& fence) const {
  std::lock_guard lock(mutex_);
  return static_cast<size_t>(std::count_if(entries_.begin(), entries_.end(), [&](const auto& one) {
    return one.first.first == fence && !one.second.is_expected;
  }));
}

bool ReplicaUploader::HasOf(const Owner& owner) const {
  std::lock_guard lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(), [&](const auto& one) {
    const auto& [key, entry] = one;
    return key.first.attempt.owner == owner && !entry.is_expected && entry.is_wanted;
  });
}

bool ReplicaUploader::IsDone() const {
  std::lock_guard lock(mutex_);
  return std::none_of(entries_.begin(), entries_.end(), [](const auto& one) {
    return one.second.is_expected || one.second.is_wanted;
  });
}

// The oldest that is due.
std::optional<ReplicaUploader::Due> ReplicaUploader::NextToAsk() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const Time now = std::chrono::steady_clock::now();
    std::optional<Time> soonest;
    const std::pair<const Key, Entry>* first = nullptr;
    for (const auto& one : entries_) {
      const Entry& entry = one.second;
      if (entry.is_expected || entry.is_pushing) continue;
      if (entry.ask_at > now) soonest = std::min(soonest.value_or(entry.ask_at), entry.ask_at);
      else if (first == nullptr || entry.order < first->second.order) first = &one;
    }
    if (first != nullptr) return Due{first->first, first->second.round};
    if (soonest) changed_.wait_until(lock, *soonest);
    else changed_.wait(lock);
  }
  return std::nullopt;
}

// The oldest of each trial; of these what is worth most, or has waited longest.
std::optional<ReplicaUploader::Due> ReplicaUploader::NextToPush() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const Time now = std::chrono::steady_clock::now();
    std::optional<Time> soonest;
    std::map<Owner, std::pair<const Key, Entry>*> first;
    for (auto& one : entries_) {
      const Entry& entry = one.second;
      if (!entry.is_to_push) continue;
      if (entry.push_at > now) {
        soonest = std::min(soonest.value_or(entry.push_at), entry.push_at);
        continue;
      }
      auto& known = first[one.first.first.attempt.owner];
      if (known == nullptr || entry.order < known->second.order) known = &one;
    }
    const auto urgency = [now](const Entry& entry) {
      return entry.worth * (1 + std::chrono::duration<double>(now - entry.added_at).count());
    };
    const auto best = std::max_element(first.begin(), first.end(), [&](auto& a, auto& b) {
      return urgency(a.second->second) < urgency(b.second->second);
    });
    if (best != first.end()) {
      best->second->second.is_pushing = true;
      return Due{best->second->first, best->second->second.round};
    }
    if (soonest) changed_.wait_until(lock, *soonest);
    else changed_.wait(lock);
  }
  return std::nullopt;
}

void ReplicaUploader::AskAll() {
  while (std::optional<Due> due = NextToAsk()) {
    const std::optional<Millis> pause = Ask(due->key);
    if (!pause) {
      Release(*due);
      continue;
    }
    std::lock_guard lock(mutex_);
    if (auto found = entries_.find(due->key); found != entries_.end())
      found->second.ask_at = std::chrono::steady_clock::now() + std::chrono::milliseconds(*pause);
    changed_.notify_all();
  }
}

// What could not be pushed is asked about again first.
void ReplicaUploader::PushAll() {
  while (std::optional<Due> due = NextToPush()) {
    const std::optional<Millis> pause = Push(due->key);
    {
      std::lock_guard lock(mutex_);
      if (auto found = entries_.find(due->key); found != entries_.end()) {
        Entry& entry = found->second;
        entry.is_pushing = entry.is_to_push = false;
        entry.push_at =
            std::chrono::steady_clock::now() + std::chrono::milliseconds(pause.value_or(0));
        entry.ask_at = Time();
      }
    }
    if (!pause) Release(*due);
    else changed_.notify_all();
  }
}

// Unless it was expected again since the head was asked, whose answer was about the earlier
// replica.
void ReplicaUploader::Release(const Due& due) {
  {
    std::lock_guard waits(releasing_);
    {
      std::lock_guard lock(mutex_);
      auto found = entries_.find(due.key);
      if (found == entries_.end() || found->second.round != due.round) return;
      entries_.erase(found);
    }
    trees_.Release(due.key.first, due.key.second);
  }
  on_done_();
}

std::optional<Millis> ReplicaUploader::Ask(const Key& key) {
  const ReplicaQuestion question = QuestionOf(key);
  auto duty = head_.RenewReplica(question);
  if (!duty.ok()) {
    Say(key, duty.status());
    return kLookEvery;
  }
  if (question.status == ReplicaStatus::kGone) {
    RT_LOG(kWarning) << rt::ToString(key.first) << ": the bytes of a checkpoint that was to be "
                     << "replicated here are lost on this node";
    return std::nullopt;
  }
  NoteDuty(key, *duty);
  if (duty->needed || (question.early && !duty->release)) return kLookEvery;
  return std::nullopt;
}

void ReplicaUploader::NoteDuty(const Key& key, const ReplicaDuty& duty) {
  {
    std::lock_guard lock(mutex_);
    auto found = entries_.find(key);
    if (found == entries_.end() || found->second.is_pushing) return;
    found->second.is_to_push = duty.needed && duty.push;
    found->second.commit_pending = duty.commit_pending;
    if (std::exchange(found->second.is_wanted, duty.needed) == duty.needed) return;
  }
  on_done_();
}

ReplicaQuestion ReplicaUploader::QuestionOf(const Key& key) const {
  const auto& [fence, manifest] = key;
  ReplicaQuestion question{.fence = fence, .manifest = manifest};
  if (trees_.ReplicaAt(manifest).empty()) question.status = ReplicaStatus::kGone;
  std::lock_guard lock(mutex_);
  if (auto found = entries_.find(key); found != entries_.end()) {
    const Entry& entry = found->second;
    question.early = entry.commit_pending || std::chrono::steady_clock::now() < entry.sure_at;
    question.row = entry.row;
  }
  return question;
}

std::optional<Millis> ReplicaUploader::Push(const Key& key) {
  const auto& [fence, manifest] = key;
  const std::string path = trees_.ReplicaAt(manifest);
  if (path.empty()) return 0;  // The next question reports it to the head.
  absl::Status status = FailAt("worker.held.before_push");
  absl::StatusOr<StoredTree> stored =
      status.ok() ? StoreTree(store_, path, {.is_cancelled = [this] {
        std::lock_guard lock(mutex_);
        return stopping_;
      }}) : absl::StatusOr<StoredTree>(status);
  if (!stored.ok()) {
    Say(key, stored.status());
    return absl::IsResourceExhausted(stored.status()) ? kPauseForSpace : kLookEvery;
  }
  if (stored->manifest != manifest) {  // Not what was saved.
    trees_.Release(fence, manifest);
    return 0;
  }
  ReachFailpoint("worker.held.after_push");
  auto reported =
      head_.RenewReplica({.fence = fence, .manifest = manifest, .status = ReplicaStatus::kStored});
  if (reported.ok()) return std::nullopt;
  Say(key, reported.status());
  return kLookEvery;
}

// What one waits for, once that has lasted, and then now and again.
void ReplicaUploader::Say(const Key& key, const absl::Status& status) {
  {
    std::lock_guard lock(mutex_);
    auto found = entries_.find(key);
    const Time now = std::chrono::steady_clock::now();
    if (found == entries_.end()) return;
    Entry& entry = found->second;
    if (now - std::max(entry.said_at, entry.added_at) < kSayEvery) return;
    entry.said_at = now;
  }
  RT_LOG(kInfo) << rt::ToString(key.first)
                << ": a checkpoint that is replicated here waits for the "
                << "store: " << EscapeControl(MessageOf(status));
}

}  // namespace rt::worker
