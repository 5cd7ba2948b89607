#include "worker/checkpoint/pusher.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/room.h"
#include "common/run/failpoint.h"
#include "common/run/files.h"
#include "worker/checkpoint/snapshot.h"

namespace rt::worker {
namespace fs = std::filesystem;
namespace {

constexpr size_t kThreads = 2;
constexpr size_t kGenerationsMax = 2;  // Of one attempt on their way; fewer than kSavedRowsMax.
constexpr Millis kPauseFirst = 20;  // The rows before it may be on their way.
constexpr Millis kPauseMost = 1'000;
// When a store is short of room: each time what waits is read, and hashed, anew.
constexpr Millis kPauseForRoom = 5'000;
constexpr std::chrono::minutes kSayEvery{1};  // What a checkpoint waits for.
constexpr std::chrono::seconds kStoredFor{30};  // Half of SweepTimes::grace_when_short.
constexpr Bytes kRowBytesMax = 1 << 20;

bool IsTransient(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsResourceExhausted(status);
}

std::string PathOf(const LiveAttempt& attempt, uint64_t seq) {
  return attempt.dir().saved() + "/" + std::to_string(seq);
}

uint64_t DoneOf(const LiveAttempt& attempt) {
  auto text = ReadFile(attempt.dir().saved() + "/done", 64);
  return text.ok() ? std::strtoull(text->c_str(), nullptr, 10) : 0;
}

absl::StatusOr<StoredTree> PushTree(BlobStore& store, const std::string& path) {
  RT_RETURN_IF_ERROR(FailAt("worker.checkpoint.before_push"));
  RT_ASSIGN_OR_RETURN(StoredTree tree, StoreTree(store, path, {}));
  RT_RETURN_IF_ERROR(FailAt("worker.checkpoint.after_push"));
  return tree;
}

absl::StatusOr<Json> ReadNote(const std::string& directory) {
  RT_ASSIGN_OR_RETURN(const std::string text, ReadFile(directory + "/row.json", kRowBytesMax));
  return Json::Parse(text);
}

}  // namespace

CheckpointPusher::CheckpointPusher(BlobStore& store, HeadCalls& head, LocalTrees& trees,
                                   std::function<void()> on_done)
    : store_(store), head_(head), trees_(trees), on_done_(std::move(on_done)) {}

CheckpointPusher::~CheckpointPusher() { Stop(); }

void CheckpointPusher::Start() {
  for (size_t i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Run(); });
}

void CheckpointPusher::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

absl::Status CheckpointPusher::Take(std::shared_ptr<LiveAttempt> attempt, const SpoolRow& row,
                                    const SavedFiles& files, Done done) {
  if (AnswerLater(attempt->fence(), row.seq, done)) return absl::OkStatus();
  if (row.seq <= DoneOf(*attempt)) {
    done(0);
    return absl::OkStatus();
  }
  const std::string directory = PathOf(*attempt, row.seq);
  const std::string part = directory + ".part";
  RT_RETURN_IF_ERROR(EnsureDirectory(attempt->dir().saved()));
  RT_RETURN_IF_ERROR(RemoveTree(part));
  RT_RETURN_IF_ERROR(EnsureDirectory(part));
  // The row first: once the files are moved away from the trial, everything is there.
  Json note = ToJson(row);
  note.Set("given", files.given);
  RT_RETURN_IF_ERROR(WriteFileAtomic(part + "/row.json", note.Dump() + "\n", {.sync = false}));
  if (!files.given && !CheckRoom(part, 0).ok()) trees_.GiveRoom();
  ReachFailpoint("worker.checkpoint.before_snapshot");
  if (absl::Status taken = TakeSnapshot(files.path, part + "/tree", files.given); !taken.ok()) {
    RemoveTree(part).IgnoreError();  // With the attempt, at the latest.
    return taken;
  }
  RT_RETURN_IF_ERROR(FailAt("worker.checkpoint.before_rename"));
  if (std::rename(part.c_str(), directory.c_str()) != 0)
    return ErrnoStatus(errno, "rename " + part);
  ReachFailpoint("worker.checkpoint.after_rename");
  Enqueue(std::make_shared<Push>(Push{std::move(attempt), row, directory, std::move(done)}));
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
  {
    std::lock_guard lock(mutex_);
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
      if (!whole || std::rename(directory.c_str(), PathOf(*attempt, seq).c_str()) != 0) continue;
      directory = PathOf(*attempt, seq);
    }
    found[seq] = directory;
  }
  const uint64_t done = DoneOf(*attempt);
  for (const auto& [seq, directory] : found) {
    auto note = ReadNote(directory);
    if (note.ok() && seq > done) {
      Enqueue(std::make_shared<Push>(Push{attempt, SpoolRowFrom(*note), directory, nullptr}));
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
  std::lock_guard lock(mutex_);
  queues_.erase(fence);
}

bool CheckpointPusher::IsWanted(const Push& push) const {
  std::lock_guard lock(mutex_);
  auto found = queues_.find(push.attempt->fence());
  return !stopping_ && found != queues_.end() && found->second.running.get() == &push;
}

std::shared_ptr<CheckpointPusher::Push> CheckpointPusher::Next() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const Time now = std::chrono::steady_clock::now();
    std::optional<Time> soonest;
    for (auto& [fence, queue] : queues_) {
      if (queue.running || queue.waiting.empty()) continue;
      const Time wanted = queue.waiting.front()->not_before;
      if (wanted > now) {
        soonest = std::min(soonest.value_or(wanted), wanted);
        continue;
      }
      queue.running = queue.waiting.front();
      queue.waiting.pop_front();
      return queue.running;
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

void CheckpointPusher::Run() {
  while (std::shared_ptr<Push> push = Next()) {
    const absl::StatusOr<uint64_t> number = Commit(*push);
    if (!IsWanted(*push)) continue;  // Forgotten, or ours to push again after a restart.
    const bool needs_room =
        absl::IsResourceExhausted(number.status()) && !push->attempt->standing().stale;
    if (needs_room) Postpone(push);
    else Finish(push, number);
  }
}

// Others may be smaller, or have all their chunks there: the thread turns to them meanwhile.
void CheckpointPusher::Postpone(const std::shared_ptr<Push>& push) {
  push->pause = std::clamp(push->pause * 2, kPauseFirst, kPauseForRoom);
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

// Through outages of the head and the store: as long as the attempt is looked after.
// ResourceExhausted: the store has no room for it now.
absl::StatusOr<uint64_t> CheckpointPusher::Commit(Push& push) {
  std::optional<StoredTree> tree;
  std::chrono::steady_clock::time_point stored_at;
  for (Millis pause = kPauseFirst;; pause = std::min(pause * 2, kPauseMost)) {
    absl::Status status;
    // A store short of room sweeps what nobody has named for long: what waits is looked at again.
    if (!tree || std::chrono::steady_clock::now() - stored_at >= kStoredFor) {
      tree.reset();
      push.stored_at = FileClock();
      absl::StatusOr<StoredTree> stored = PushTree(store_, push.directory + "/tree");
      status = stored.status();
      if (stored.ok()) tree = *stored;
      stored_at = std::chrono::steady_clock::now();
    }
    if (tree) {
      auto number =
          head_.CommitCheckpoint(push.attempt->fence(), tree->manifest, push.row, tree->bytes);
      if (number.ok()) {
        push.stored = std::move(*tree);
        return number;
      }
      status = number.status();
    }
    if (!IsTransient(status) || push.attempt->standing().stale || !IsWanted(push)) return status;
    const bool needs_room = !tree && absl::IsResourceExhausted(status);
    if (pause == kPauseMost || (needs_room && push.pause == kPauseForRoom)) Say(push, status);
    if (needs_room) return status;
    if (!Pause(pause)) return status;
  }
}

void CheckpointPusher::Finish(const std::shared_ptr<Push>& push,
                              const absl::StatusOr<uint64_t>& number) {
  if (number.ok()) {
    ReachFailpoint("worker.checkpoint.after_commit");
    const std::string done = push->attempt->dir().saved() + "/done";
    absl::Status noted =
        WriteFileAtomic(done, std::to_string(push->row.seq) + "\n", {.sync = false});
    if (!noted.ok()) {
      RT_LOG(kWarning) << MessageOf(noted);
    }
    if (*number != 0) push->attempt->NoteSaved(push->row.seq);  // Else the head says when.
    trees_.Keep(push->stored.manifest, push->stored.text, push->directory + "/tree",
                push->stored_at);
  } else {
    RT_LOG(kWarning) << rt::ToString(push->attempt->fence()) << ": checkpoint of row "
                     << push->row.seq << " is lost: " << EscapeControl(MessageOf(number.status()));
  }
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
