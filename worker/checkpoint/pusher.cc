#include "worker/checkpoint/pusher.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/digest.h"
#include "common/cas/store_space.h"
#include "common/run/failpoint.h"
#include "common/run/files.h"
#include "worker/checkpoint/snapshot.h"
#include "worker/checkpoint/taken.h"
#include "worker/session/reported_files.h"
#include "worker/trees/tree_files.h"

namespace rt::worker {
namespace fs = std::filesystem;
namespace {

constexpr size_t kThreads = 2;
constexpr size_t kSmallThreads = 1;  // That push no large ones.
// Of one attempt on their way; fewer than kCheckpointRowsMax.
constexpr size_t kGenerationsMax = 2;
constexpr Millis kPauseFirst = 20;  // The rows before it may be on their way.
constexpr Millis kPauseMost = 1'000;
// When a store is short of room: each time what waits is read, and hashed, anew.
constexpr Millis kPauseForSpace = 5'000;
constexpr std::chrono::minutes kSayEvery{1};  // What a checkpoint waits for.
// Half of SweepTimes::grace_when_short; and a third of what another node waits (held_pusher.cc).
constexpr std::chrono::seconds kSafeFor{30};
constexpr size_t kReplicasMax = 4;  // Of one attempt; the next goes to the store at once.

// Takes everything and keeps nothing: what a tree's manifest would be.
class NamesOnly : public BlobStore {
 public:
  absl::StatusOr<std::vector<std::string>> FindMissing(const std::vector<std::string>&) override {
    return std::vector<std::string>();
  }
  absl::Status PutChunk(const std::string&, std::string_view) override { return absl::OkStatus(); }
  absl::StatusOr<std::string> PutManifest(std::string_view text) override { return Digest(text); }
  absl::StatusOr<std::string> GetChunk(const std::string& digest) override {
    return NotFound("no chunk " + digest);
  }
  absl::StatusOr<std::string> GetManifest(const std::string& digest) override {
    return NotFound("no manifest " + digest);
  }
};

// What would be lost with it, per byte: seconds since the one before, times the devices that ran.
double WorthOf(const LiveAttempt& attempt, double since_s, const SpoolRow& row, Bytes bytes) {
  const size_t devices = std::max<size_t>(1, attempt.body().gpu_uuids.size());
  const double seconds = std::max(0.001, row.time_total_s - since_s);
  return seconds * static_cast<double>(devices) / static_cast<double>(std::max<Bytes>(1, bytes));
}

absl::StatusOr<StoredTree> PushTree(BlobStore& store, const std::string& path,
                                    const TreeOptions& options) {
  RT_RETURN_IF_ERROR(FailAt("worker.checkpoint.before_push"));
  RT_ASSIGN_OR_RETURN(StoredTree tree, StoreTree(store, path, options));
  RT_RETURN_IF_ERROR(FailAt("worker.checkpoint.after_push"));
  return tree;
}

}  // namespace

CheckpointPusher::CheckpointPusher(BlobStore& store, HeadCalls& head, LocalTrees& trees,
                                   std::function<void()> on_done, PeerReplicas* peers,
                                   PushBounds bounds)
    : store_(store), head_(head), trees_(trees), on_done_(std::move(on_done)), peers_(peers),
      bounds_(bounds), uploader_(store, head, trees, on_done_) {}

CheckpointPusher::~CheckpointPusher() { Stop(); }

void CheckpointPusher::Start() {
  uploader_.Start();
  for (size_t i = 0; i < kThreads + kSmallThreads; ++i)
    threads_.emplace_back([this, takes_large = i < kThreads] { Run(takes_large); });
}

void CheckpointPusher::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  uploader_.Stop();
}

absl::Status CheckpointPusher::Take(std::shared_ptr<LiveAttempt> attempt, const SpoolRow& row,
                                    const CheckpointFiles& files, Done done) {
  if (AnswerLater(attempt->fence(), row.seq, done)) return absl::OkStatus();
  if (row.seq <= DoneOf(*attempt)) {
    done(0);
    return absl::OkStatus();
  }
  const std::string directory = TakenPathOf(*attempt, row.seq);
  const std::string part = directory + ".part";
  RT_RETURN_IF_ERROR(EnsureDirectory(attempt->dir().saved()));
  RT_RETURN_IF_ERROR(RemoveTree(part));
  RT_RETURN_IF_ERROR(EnsureDirectory(part));
  // The row first: once the files are moved away from the trial, everything is there.
  Json note = ToJson(row);
  note.Set("given", files.given);
  // What is given leaves the run directory.
  const std::string reported =
      files.given ? "" : OutputPathOf(attempt->dir(), attempt->fence().rank, files.path);
  note.Set("reported", reported);
  RT_RETURN_IF_ERROR(WriteFileAtomic(part + "/row.json", note.Dump() + "\n", {.sync = false}));
  if (!files.given && !CheckSpace(part, 0).ok()) trees_.FreeSpace();
  ReachFailpoint("worker.checkpoint.before_snapshot");
  if (absl::Status taken = TakeSnapshot(files.path, part + "/tree", files.given); !taken.ok()) {
    RemoveTree(part).IgnoreError();  // With the attempt, at the latest.
    return taken;
  }
  RT_RETURN_IF_ERROR(FailAt("worker.checkpoint.before_rename"));
  if (std::rename(part.c_str(), directory.c_str()) != 0)
    return ErrnoStatus(errno, "rename " + part);
  ReachFailpoint("worker.checkpoint.after_rename");
  Enqueue(std::make_shared<Push>(
      Push{std::move(attempt), row, directory, std::move(done), reported}));
  return absl::OkStatus();
}

// Whether it was taken before, and is on its way.
bool CheckpointPusher::AnswerLater(const Fence& fence, uint64_t seq, const Done& done) {
  std::lock_guard lock(mutex_);
  auto found = queues_.find(fence);
  if (found == queues_.end()) return false;
  std::deque<std::shared_ptr<Push>> all = found->second.waiting;
  if (found->second.running) all.push_back(found->second.running);
  for (const auto& push : all) {
    if (push->row.seq != seq) continue;
    push->done = done;
    return true;
  }
  return false;
}

void CheckpointPusher::Enqueue(std::shared_ptr<Push> push) {
  push->is_large = std::max(push->stored.bytes, BytesBelow(push->directory + "/tree")) >=
                   bounds_.large;
  {
    std::lock_guard lock(mutex_);
    push->order = ++orders_;
    queues_[push->attempt->fence()].waiting.push_back(std::move(push));
  }
  changed_.notify_all();
}

void CheckpointPusher::Recover(std::shared_ptr<LiveAttempt> attempt) {
  std::map<uint64_t, std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(attempt->dir().saved(), error)) {
    const std::string name = entry.path().filename().string();
    const uint64_t seq = std::strtoull(name.c_str(), nullptr, 10);
    if (seq == 0) continue;
    std::string directory = entry.path().string();
    if (name.ends_with(".part")) {
      // Moved as a whole or, when it was copied, perhaps not: then its trial says it again.
      auto note = ReadNote(directory);
      const bool whole = note.ok() && note->GetBool("given") && Exists(directory + "/tree");
      const std::string taken = TakenPathOf(*attempt, seq);
      if (!whole || std::rename(directory.c_str(), taken.c_str()) != 0) continue;
      directory = taken;
    }
    found[seq] = directory;
  }
  const uint64_t done = DoneOf(*attempt);
  for (const auto& [seq, directory] : found) {
    auto note = ReadNote(directory);
    if (note.ok() && seq > done) {
      Push push{attempt, SpoolRowFrom(*note), directory, nullptr, note->GetString("reported")};
      if (const StoredTree noted = ReadReplicaNote(directory); !noted.manifest.empty()) {
        uploader_.Expect(attempt->fence(), noted.manifest);
        push.stored = noted;
        push.was_named = true;  // By the daemon before, perhaps.
      }
      Enqueue(std::make_shared<Push>(std::move(push)));
    } else {
      RemoveTree(directory).IgnoreError();  // With the attempt, at the latest.
    }
  }
}

bool CheckpointPusher::Has(const Fence& fence) const {
  std::lock_guard lock(mutex_);
  auto found = queues_.find(fence);
  return found != queues_.end() && (found->second.running || !found->second.waiting.empty());
}

bool CheckpointPusher::IsFull(const Fence& fence) const {
  std::lock_guard lock(mutex_);
  auto found = queues_.find(fence);
  if (found == queues_.end()) return false;
  return found->second.waiting.size() + (found->second.running ? 1 : 0) >= kGenerationsMax;
}

void CheckpointPusher::Forget(const Fence& fence) {
  std::deque<std::shared_ptr<Push>> waiting;
  {
    std::lock_guard lock(mutex_);
    auto found = queues_.find(fence);
    if (found == queues_.end()) return;
    waiting = std::move(found->second.waiting);
    queues_.erase(found);  // Who pushes for it notices.
  }
  for (const auto& push : waiting) LeaveReplica(*push);
}

// Nobody will commit it any more.
void CheckpointPusher::LeaveReplica(const Push& push) {
  const std::string& manifest = push.stored.manifest;
  if (push.was_named) uploader_.AddUnsure(push.attempt->fence(), manifest, push.row.seq);
  else if (!manifest.empty()) uploader_.Drop(push.attempt->fence(), manifest);
}

bool CheckpointPusher::IsForgotten(const Push& push) const {
  std::lock_guard lock(mutex_);
  auto found = queues_.find(push.attempt->fence());
  return found == queues_.end() || found->second.running.get() != &push;
}

bool CheckpointPusher::IsWanted(const Push& push) const {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return false;
  }
  return !IsForgotten(push);
}

// Storing a tree ends soon after nobody needs it any more.
TreeOptions CheckpointPusher::OptionsOf(const Push& push) const {
  return {.is_cancelled = [this, &push] {
    return !IsWanted(push) || push.attempt->standing().stale;
  }};
}

// The one whose first push came first, of those that may start now; `soonest`: when another may.
CheckpointPusher::Queue* CheckpointPusher::NextQueue(bool takes_large, Time now,
                                                     std::optional<Time>& soonest) {
  Queue* next = nullptr;
  for (auto& [fence, queue] : queues_) {
    if (queue.running || queue.waiting.empty()) continue;
    const Push& first = *queue.waiting.front();
    if (first.is_large && !takes_large) continue;
    if (first.not_before > now)
      soonest = std::min(soonest.value_or(first.not_before), first.not_before);
    else if (next == nullptr || first.order < next->waiting.front()->order)
      next = &queue;
  }
  return next;
}

std::shared_ptr<CheckpointPusher::Push> CheckpointPusher::Next(bool takes_large) {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    std::optional<Time> soonest;
    Queue* queue = NextQueue(takes_large, std::chrono::steady_clock::now(), soonest);
    if (queue != nullptr) {
      queue->running = queue->waiting.front();
      queue->waiting.pop_front();
      return queue->running;
    }
    if (soonest) changed_.wait_until(lock, *soonest);
    else changed_.wait(lock);
  }
  return nullptr;
}

// False when it is time to stop.
bool CheckpointPusher::Pause(Millis span) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, std::chrono::milliseconds(span), [this] { return stopping_; });
}

void CheckpointPusher::Run(bool takes_large) {
  while (std::shared_ptr<Push> push = Next(takes_large)) {
    const absl::StatusOr<uint64_t> number = Commit(*push);
    if (IsForgotten(*push)) {
      LeaveReplica(*push);
      continue;
    }
    if (!IsWanted(*push)) continue;  // Ours to push again after a restart.
    const bool needs_space =
        absl::IsResourceExhausted(number.status()) && !push->attempt->standing().stale;
    if (needs_space) Postpone(push);
    else Finish(push, number);
  }
}

// Others may be smaller, or have all their chunks there: the thread turns to them meanwhile.
void CheckpointPusher::Postpone(const std::shared_ptr<Push>& push) {
  push->pause = std::clamp(push->pause * 2, kPauseFirst, kPauseForSpace);
  push->not_before = std::chrono::steady_clock::now() + std::chrono::milliseconds(push->pause);
  {
    std::lock_guard lock(mutex_);
    auto found = queues_.find(push->attempt->fence());
    if (found == queues_.end() || found->second.running != push) return;
    found->second.running.reset();
    found->second.waiting.push_front(push);
  }
  changed_.notify_all();
}

// Now and then what it waits for.
void CheckpointPusher::Say(Push& push, const absl::Status& status) {
  const Time now = std::chrono::steady_clock::now();
  if (push.said_at != Time() && now - push.said_at < kSayEvery) return;
  push.said_at = now;
  RT_LOG(kWarning) << rt::ToString(push.attempt->fence()) << ": checkpoint of row "
                   << push.row.seq << " waits: " << EscapeControl(MessageOf(status));
}

// Why no replica was made; the next checkpoint of the attempt most likely gets none either.
void CheckpointPusher::SayOnce(const Push& push, const absl::Status& why) {
  {
    std::lock_guard lock(mutex_);
    auto found = queues_.find(push.attempt->fence());
    if (found == queues_.end() || std::exchange(found->second.said_why, true)) return;
  }
  RT_LOG(kInfo) << rt::ToString(push.attempt->fence()) << ": checkpoint of row " << push.row.seq
                << " goes to the store at once: " << EscapeControl(MessageOf(why));
}

// Whether it counts before the store has it.
bool CheckpointPusher::IsReplicatedFirst(const Push& push) const {
  const LaunchBody& body = push.attempt->body();
  if (!push.may_be_replica || body.world_size > 1 || push.row.collective) return false;
  if (uploader_.CountOf(push.attempt->fence()) >= kReplicasMax) return false;  // The store is slow.
  if (body.durable_after == DurableAfter::kLocal) return true;
  if (peers_ == nullptr) return false;
  if (body.durable_after == DurableAfter::kPeer) return true;
  // Its node is to go: another one is nearer than the store.
  return push.attempt->standing().evict &&
         BytesBelow(push.directory + "/tree") >= limits::kPeerTreeBytesMin;
}

// Makes a replica of the tree here and, unless this disk is enough, on another node as well.
absl::Status CheckpointPusher::Replicate(Push& push) {
  const Fence& fence = push.attempt->fence();
  const std::string path = push.directory + "/tree";
  StoredTree tree = ReadReplicaNote(push.directory);
  const bool is_moved = !tree.manifest.empty() && !Exists(path);  // By an earlier daemon, say.
  if (!is_moved) {
    NamesOnly names;
    push.stored_at = FileClock();
    RT_ASSIGN_OR_RETURN(tree, StoreTree(names, path, OptionsOf(push)));
    RT_RETURN_IF_ERROR(WriteFileAtomic(ReplicaNote(push.directory),
                                       tree.manifest + " " + std::to_string(tree.bytes) + "\n"));
    uploader_.Expect(fence, tree.manifest);
    absl::Status taken = FailAt("worker.checkpoint.before_hold");
    if (taken.ok())
      taken = trees_.AddReplica(fence, tree.manifest, tree.text, path, push.stored_at);
    if (!taken.ok()) {
      uploader_.Drop(fence, tree.manifest);
      return taken;
    }
  } else {
    if (trees_.ReplicaAt(tree.manifest).empty())
      return absl::DataLossError("its bytes have changed since the replica was made");
    uploader_.Expect(fence, tree.manifest);
  }
  ReachFailpoint("worker.checkpoint.after_hold");
  push.safe = {.manifest = tree.manifest, .bytes = tree.bytes, .is_replica = true};
  push.stored = std::move(tree);
  const bool goes = push.attempt->standing().evict && peers_ != nullptr;  // This disk, with it.
  if (push.attempt->body().durable_after == DurableAfter::kLocal && !goes) return absl::OkStatus();
  RT_ASSIGN_OR_RETURN(const uint64_t peer,
                      peers_->Replicate(push.safe.manifest, fence, push.row.seq));
  push.safe.peers = {peer};
  return absl::OkStatus();
}

absl::Status CheckpointPusher::Store(Push& push) {
  const std::string replica = trees_.ReplicaAt(push.stored.manifest);
  push.stored_at = FileClock();
  const std::string path = replica.empty() ? push.directory + "/tree" : replica;
  RT_ASSIGN_OR_RETURN(StoredTree stored, PushTree(store_, path, OptionsOf(push)));
  if (!replica.empty() && stored.manifest != push.stored.manifest)
    return absl::DataLossError("its bytes have changed since the replica was made");
  push.stored = std::move(stored);
  push.safe = {.manifest = push.stored.manifest, .bytes = push.stored.bytes};
  return absl::OkStatus();
}

absl::Status CheckpointPusher::MakeSafe(Push& push) {
  push.safe_at = std::chrono::steady_clock::now();
  if (IsReplicatedFirst(push)) {
    const absl::Status replicated = Replicate(push);
    if (replicated.ok() || absl::IsCancelled(replicated)) return replicated;
    push.may_be_replica = false;
    SayOnce(push, replicated);
  } else if (push.stored.manifest.empty()) {
    push.stored = ReadReplicaNote(push.directory);  // Where it lies.
  }
  push.safe = {};
  return Store(push);
}

// Through outages of the head and the store: as long as the attempt is looked after.
// ResourceExhausted: the store has no room for it now.
absl::StatusOr<uint64_t> CheckpointPusher::Commit(Push& push) {
  bool is_safe = false;
  for (Millis pause = kPauseFirst;; pause = std::min(pause * 2, kPauseMost)) {
    absl::Status status;
    // A store short of room sweeps what nobody has named for long, and another node lets go of it:
    // what waits is looked at again.
    if (!is_safe || std::chrono::steady_clock::now() - push.safe_at >= kSafeFor) {
      status = MakeSafe(push);
      is_safe = status.ok();
    }
    if (is_safe) {
      push.was_named |= push.safe.is_replica;
      auto number = head_.CommitCheckpoint(push.attempt->fence(), push.row, push.safe);
      if (number.ok()) return number;
      status = number.status();
    }
    if (!IsTransient(status) || push.attempt->standing().stale || !IsWanted(push)) return status;
    const bool needs_space = !is_safe && absl::IsResourceExhausted(status);
    if (pause == kPauseMost || (needs_space && push.pause == kPauseForSpace)) Say(push, status);
    if (needs_space) return status;
    if (!Pause(pause)) return status;
  }
}

// When its attempt's committed checkpoint before it was made, in seconds of training.
double CheckpointPusher::WorkSavedBefore(const Push& push) {
  std::lock_guard lock(mutex_);
  auto found = queues_.find(push.attempt->fence());
  const double start = push.attempt->body().time_total_base_s;
  if (found == queues_.end()) return start;
  return std::max(start, std::exchange(found->second.replicated_to_s, push.row.time_total_s));
}

// What a commit may have named stays until the head has been asked: though it was refused, or the
// store has it by now, an earlier try may have been heard and its answer lost.
void CheckpointPusher::Settle(const Push& push, bool is_committed) {
  const Fence& fence = push.attempt->fence();
  if (push.was_named) {
    double worth = 1;
    if (is_committed && push.safe.is_replica)
      worth = WorthOf(*push.attempt, WorkSavedBefore(push), push.row, push.safe.bytes);
    return uploader_.Add(fence, push.stored.manifest, worth);
  }
  uploader_.Drop(fence, push.stored.manifest);
  if (is_committed)
    trees_.Keep(push.stored.manifest, push.stored.text, push.directory + "/tree", push.stored_at);
}

void CheckpointPusher::Finish(const std::shared_ptr<Push>& push,
                              const absl::StatusOr<uint64_t>& number) {
  if (number.ok()) {
    ReachFailpoint("worker.checkpoint.after_commit");
    const std::string done = push->attempt->dir().saved() + "/done";
    absl::Status noted = NoteReported(push->attempt->dir(), push->reported, push->row,
                                      *number != 0 || !push->row.collective, push->stored.text);
    noted.Update(WriteFileAtomic(done, std::to_string(push->row.seq) + "\n", {.sync = false}));
    if (!noted.ok()) {
      RT_LOG(kWarning) << MessageOf(noted);
    }
    if (*number != 0) push->attempt->NoteSaved(push->row.seq);  // Else the head says when.
  } else {
    RT_LOG(kWarning) << rt::ToString(push->attempt->fence()) << ": checkpoint of row "
                     << push->row.seq << " is lost: " << EscapeControl(MessageOf(number.status()));
  }
  Settle(*push, number.ok());
  ReachFailpoint("worker.checkpoint.before_forget");
  RemoveTree(push->directory).IgnoreError();  // With the attempt, at the latest.
  Done answer;
  {
    std::lock_guard lock(mutex_);
    answer = std::exchange(push->done, nullptr);
    auto found = queues_.find(push->attempt->fence());
    if (found != queues_.end()) found->second.running.reset();
  }
  changed_.notify_all();
  if (answer) answer(number);
  on_done_();
}

}  // namespace rt::worker
