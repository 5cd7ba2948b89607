#include "worker/checkpoint/output_keeper.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/manifest.h"
#include "common/cas/tree.h"
#include "common/run/failpoint.h"
#include "common/run/files.h"

namespace rt::worker {
namespace fs = std::filesystem;
namespace {

constexpr size_t kThreads = 2;
constexpr Millis kPauseFirst = 50;
constexpr Millis kPauseMost = 5'000;
constexpr int kTriesMax = 3;
constexpr char kPart[] = ".part";
constexpr char kReported[] = "/reported";
constexpr char kWhole[] = "/whole";
constexpr std::chrono::minutes kSayEvery{1};
// A store that is short of room sweeps what nobody has named for long (SweepTimes): then it is
// looked at again what is there.
constexpr std::chrono::seconds kSafeFor{30};

// Moves a directory, if it is there. Its owner may have made it read-only.
absl::Status Move(const std::string& from, const std::string& to) {
  struct stat info {};
  if (::lstat(from.c_str(), &info) != 0) return absl::OkStatus();
  const bool is_closed = S_ISDIR(info.st_mode) && (info.st_mode & 0700) != 0700;
  if (is_closed && ::chmod(from.c_str(), 0700) != 0) return ErrnoStatus(errno, "chmod " + from);
  if (std::rename(from.c_str(), to.c_str()) != 0) return ErrnoStatus(errno, "move " + from);
  return absl::OkStatus();
}

// What checkpoints have of the files; of one rank that is everything that it reported.
absl::Status TakeNotes(const RunDir& dir, const std::string& to, uint64_t whole_seq) {
  if (!Exists(dir.reported())) return absl::OkStatus();
  RT_RETURN_IF_ERROR(
      WriteFileAtomic(to + kWhole, std::to_string(whole_seq) + "\n", {.sync = false}));
  return Move(dir.reported(), to + kReported);
}

absl::StatusOr<LaunchBody> ReadBody(const Fence& fence, const RunDir& dir) {
  RT_ASSIGN_OR_RETURN(const std::string text, ReadFile(dir.body()));
  RT_ASSIGN_OR_RETURN(const Json json, Json::Parse(text));
  return LaunchBodyFrom(fence, json);
}

// Each rank's part of the bound, so that the trial keeps no more than it.
WrittenBounds BoundsFor(const LaunchBody& body, Bytes bytes) {
  return {.bytes = bytes / std::max<Bytes>(1, body.world_size)};
}

SentOutputs AllLeftOut(Written written, const std::string& why) {
  SentOutputs sent;
  for (const auto& [path, bytes] : written.paths) written.LeaveOut(path, bytes, why);
  written.SortLeftOut();
  sent.left_out = std::move(written.left_out);
  sent.left_out_bytes = written.left_out_bytes;
  return sent;
}

// What the manifest holds; of the rest of what was to be stored, why it does not.
absl::StatusOr<SentOutputs> SentFrom(const StoredTree& stored, Written written,
                                     const std::map<std::string, std::string>& unreadable) {
  RT_ASSIGN_OR_RETURN(const Manifest manifest, ParseManifest(stored.text));
  SentOutputs sent{.manifest = stored.manifest, .files = 0, .bytes = stored.bytes};
  for (const ManifestEntry& entry : manifest.entries) {
    sent.paths.push_back(entry.path);
    sent.files += entry.kind == ManifestEntry::Kind::kDirectory ? 0 : 1;
    written.paths.erase(entry.path);
  }
  for (const auto& [path, bytes] : written.paths) {
    const bool is_gone = !unreadable.contains(path);
    written.LeaveOut(path, bytes, is_gone ? "it was removed meanwhile" : unreadable.at(path));
  }
  written.SortLeftOut();
  sent.left_out = std::move(written.left_out);
  sent.left_out_bytes = written.left_out_bytes;
  if (sent.paths.empty()) sent.manifest.clear();
  return sent;
}

}  // namespace

OutputKeeper::OutputKeeper(OutputOptions options, BlobStore& store, OutputCalls& head,
                           TreeCache& bundles, std::function<void()> on_done)
    : options_(std::move(options)),
      store_(store),
      head_(head),
      bundles_(bundles),
      on_done_(std::move(on_done)) {}

OutputKeeper::~OutputKeeper() { Stop(); }

std::string OutputKeeper::PathOf(const Fence& fence) const {
  return directory() + "/" + rt::ToString(fence);
}

bool OutputKeeper::HasRunDir(const std::string& name) const {
  return Exists(options_.state_dir + "/attempts/" + name);
}

void OutputKeeper::Start() {
  Recover();
  for (size_t i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Run(); });
}

void OutputKeeper::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

// What was being taken is whole once its run directory is gone, and taken on when it is forgotten
// again otherwise.
void OutputKeeper::Recover() {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory(), error)) {
    std::string name = entry.path().filename().string();
    if (name.ends_with(kPart)) {
      name.resize(name.size() - (sizeof kPart - 1));
      if (HasRunDir(name)) continue;
      if (std::rename(entry.path().c_str(), (directory() + "/" + name).c_str()) != 0) {
        RT_LOG(kWarning) << MessageOf(ErrnoStatus(errno, "rename " + entry.path().string()));
        continue;
      }
    }
    const std::optional<Fence> fence = ParseFence(name);
    if (!fence || HasRunDir(name)) continue;
    std::lock_guard lock(mutex_);
    entries_[*fence] = {.stage = Stage::kWaiting, .order = next_order_++};
  }
}

void OutputKeeper::Expect(const Fence& fence) {
  if (options_.bytes == 0) return;
  std::lock_guard lock(mutex_);
  entries_.try_emplace(fence, Entry{.order = next_order_++});
}

void OutputKeeper::Take(const LaunchBody& body, const RunDir& dir, uint64_t whole_seq) {
  if (options_.bytes == 0) return;
  const std::string path = PathOf(body.fence), part = path + kPart;
  if (Exists(path)) {
    RT_LOG(kWarning) << rt::ToString(body.fence) << ": its outputs are lost: those of an attempt "
                     << "of the same number, which the head forgot, still wait";
    return;
  }
  const std::string tree = body.bundle.empty() ? "" : bundles_.PathOf(body.bundle);
  const bool knows_base = body.bundle.empty() || !tree.empty();
  const bool may_have = !knows_base || Exists(part) ||
                        MayHaveWritten(dir.work(), {tree, body.started_at}) ||
                        MayHaveWritten(dir.trial(), {});
  if (!may_have) return;
  ReachFailpoint("worker.outputs.before_take");
  const std::string to =
      fs::path(part + "/" + OutputPlace(body.fence.rank, "work")).parent_path().string();
  absl::Status taken = EnsureDirectory(to);
  if (taken.ok()) taken = Move(dir.work(), to + "/work");
  ReachFailpoint("worker.outputs.after_work");
  if (taken.ok()) taken = Move(dir.trial(), to + "/trial");
  if (taken.ok()) taken = TakeNotes(dir, part, whole_seq);
  if (taken.ok()) taken = Move(dir.body(), RunDir{part}.body());
  if (taken.ok()) taken = Move(part, path);
  ReachFailpoint("worker.outputs.after_take");
  std::lock_guard lock(mutex_);
  Entry& entry = entries_[body.fence];
  entry.stage = Stage::kTaken;
  if (taken.ok()) return;
  RT_LOG(kError) << rt::ToString(body.fence) << ": its outputs are lost: " << MessageOf(taken);
  RemoveTree(part).IgnoreError();  // With the state directory, at the latest.
  Written lost;
  lost.LeaveOut(OutputPlace(body.fence.rank, "work"), 0, MessageOf(taken));
  entry.sent = AllLeftOut(std::move(lost), "");
}

void OutputKeeper::Keep(const Fence& fence) {
  {
    std::lock_guard lock(mutex_);
    auto found = entries_.find(fence);
    if (found == entries_.end()) return;
    if (found->second.stage == Stage::kTaken) found->second.stage = Stage::kWaiting;
    else if (found->second.stage == Stage::kExpected) entries_.erase(found);
  }
  changed_.notify_one();
}

std::vector<Fence> OutputKeeper::Pending() const {
  std::lock_guard lock(mutex_);
  std::vector<Fence> pending;
  for (const auto& [fence, entry] : entries_) {
    if (pending.size() >= limits::kOutputsWaitingMax) break;
    pending.push_back(fence);
  }
  return pending;
}

bool OutputKeeper::IsFull() const {
  std::lock_guard lock(mutex_);
  if (entries_.size() >= options_.waiting_max) return true;
  Bytes bytes = 0;
  for (const auto& [fence, entry] : entries_) bytes += entry.bytes;
  return bytes >= limits::kOutputsWaitingBytesMax;
}

std::optional<Fence> OutputKeeper::Next() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const Time now = std::chrono::steady_clock::now();
    std::optional<Time> soonest;
    std::pair<const Fence, Entry>* first = nullptr;
    for (auto& one : entries_) {
      const Entry& entry = one.second;
      if (entry.stage != Stage::kWaiting) continue;
      if (entry.not_before > now) {
        soonest = std::min(soonest.value_or(entry.not_before), entry.not_before);
      } else if (first == nullptr || entry.order < first->second.order) {
        first = &one;
      }
    }
    if (first != nullptr) {
      first->second.stage = Stage::kRunning;
      if (first->second.first_at == Time()) first->second.first_at = now;
      return first->first;
    }
    if (soonest) changed_.wait_until(lock, *soonest);
    else changed_.wait(lock);
  }
  return std::nullopt;
}

void OutputKeeper::Run() {
  while (std::optional<Fence> fence = Next()) Finish(*fence, KeepOne(*fence));
}

// Done unless the error is one that may pass.
void OutputKeeper::Finish(const Fence& fence, const absl::Status& kept) {
  if (IsTransient(kept)) {
    Say(fence, kept);
    std::lock_guard lock(mutex_);
    Entry& entry = entries_.at(fence);
    entry.pause = std::clamp(entry.pause * 2, kPauseFirst, kPauseMost);
    entry.not_before =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(entry.pause);
    entry.stage = Stage::kWaiting;
    return;
  }
  if (!kept.ok() && !absl::IsFailedPrecondition(kept)) {
    RT_LOG(kError) << rt::ToString(fence) << ": its outputs are lost: "
                   << EscapeControl(MessageOf(kept));
  }
  if (absl::Status removed = RemoveTree(PathOf(fence)); !removed.ok()) {
    RT_LOG(kWarning) << MessageOf(removed);
  }
  {
    std::lock_guard lock(mutex_);
    entries_.erase(fence);
  }
  on_done_();
}

absl::Status OutputKeeper::KeepOne(const Fence& fence) {
  std::optional<SentOutputs> sent;
  {
    std::lock_guard lock(mutex_);
    const Entry& entry = entries_.at(fence);
    const bool is_safe = std::chrono::steady_clock::now() - entry.sent_at < kSafeFor;
    if (entry.sent && (is_safe || entry.sent->manifest.empty())) sent = entry.sent;
  }
  if (!sent) {
    const Time before = std::chrono::steady_clock::now();
    RT_ASSIGN_OR_RETURN(sent, PushOrGiveUp(fence));
    std::lock_guard lock(mutex_);
    Entry& entry = entries_.at(fence);
    entry.sent = sent;
    entry.sent_at = before;
  }
  if (sent->paths.empty() && sent->left_out.empty()) return absl::OkStatus();
  RT_RETURN_IF_ERROR(head_.KeepOutputs(fence, *sent));
  ReachFailpoint("worker.outputs.after_told");
  return absl::OkStatus();
}

absl::StatusOr<Written> OutputKeeper::Find(const Fence& fence) {
  const std::string path = PathOf(fence);
  RT_ASSIGN_OR_RETURN(const LaunchBody body, ReadBody(fence, {path}));
  std::string tree;
  if (!body.bundle.empty()) {
    RT_ASSIGN_OR_RETURN(tree, bundles_.Get(body.bundle, fence));
  }
  const auto whole = ReadFile(path + kWhole, 64);
  ReportedFiles reported(path + kReported,
                         whole.ok() ? std::strtoull(whole->c_str(), nullptr, 10) : 0);
  return FindWritten(path,
                     {{OutputPlace(fence.rank, "work"), {tree, body.started_at}},
                      {OutputPlace(fence.rank, "trial"), {}}},
                     BoundsFor(body, options_.bytes), &reported);
}

absl::StatusOr<SentOutputs> OutputKeeper::Push(const Fence& fence) {
  absl::StatusOr<Written> written = Find(fence);
  bundles_.Release(fence);
  RT_RETURN_IF_ERROR(written.status());
  {
    std::lock_guard lock(mutex_);
    entries_.at(fence).bytes = written->bytes + written->left_out_bytes;
  }
  if (written->paths.empty()) return AllLeftOut(*std::move(written), "");
  RT_RETURN_IF_ERROR(FailAt("worker.outputs.before_push"));
  std::map<std::string, std::string> unreadable;
  RT_ASSIGN_OR_RETURN(const StoredTree stored,
                      StoreTree(store_, PathOf(fence),
                                {.only = &written->paths, .unreadable = &unreadable}));
  RT_RETURN_IF_ERROR(FailAt("worker.outputs.after_push"));
  return SentFrom(stored, *std::move(written), unreadable);
}

absl::StatusOr<SentOutputs> OutputKeeper::PushOrGiveUp(const Fence& fence) {
  absl::StatusOr<SentOutputs> sent = Push(fence);
  if (sent.ok()) return sent;
  if (!IsGivenUp(fence, sent.status())) {
    if (IsTransient(sent.status())) return sent;
    return absl::UnavailableError(ToAbsl(MessageOf(sent.status())));
  }
  absl::StatusOr<Written> written = Find(fence);
  bundles_.Release(fence);
  RT_RETURN_IF_ERROR(written.status());
  const std::string why = EscapeControl(MessageOf(sent.status()));
  RT_LOG(kWarning) << rt::ToString(fence) << ": its outputs are given up: " << why;
  return AllLeftOut(*std::move(written), why);
}

// The first of its failures that no outage explains may be over the next time.
bool OutputKeeper::IsGivenUp(const Fence& fence, const absl::Status& why) {
  std::lock_guard lock(mutex_);
  Entry& entry = entries_.at(fence);
  if (absl::IsResourceExhausted(why))
    return std::chrono::steady_clock::now() - entry.first_at >=
           std::chrono::milliseconds(options_.wait_for_space);
  return !IsTransient(why) && ++entry.tries >= kTriesMax;
}

// Once that has lasted, and then now and again.
void OutputKeeper::Say(const Fence& fence, const absl::Status& status) {
  {
    std::lock_guard lock(mutex_);
    Entry& entry = entries_.at(fence);
    const Time now = std::chrono::steady_clock::now();
    if (now - std::max(entry.said_at, entry.first_at) < kSayEvery) return;
    entry.said_at = now;
  }
  RT_LOG(kInfo) << rt::ToString(fence) << ": its outputs wait: "
                << EscapeControl(MessageOf(status));
}

}  // namespace rt::worker
