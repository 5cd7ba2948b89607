// The outputs of ended attempts, on their way to the store: taken out of the run directory,
// compared with the bundle, pushed and reported to the head by threads of this object, oldest
// first. Taken outputs outlive the daemon:
//   <directory>/<fence>/{body.json, work/, trial/}   taken; below rank-N/ for ranks other than 0
//   <directory>/<fence>/{reported/, whole}           what its checkpoints have: reported_files.h
//   <directory>/<fence>.part                         being taken: its run directory has the rest
// A trial's end does not wait for its outputs. Outputs for which the store has no space, or that
// cannot be read repeatedly, are left out after a while, and their names are reported to the head.
// Owns its threads. Public functions are thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/limits.h"
#include "common/cas/blob_store.h"
#include "worker/loop/kept_outputs.h"
#include "worker/trees/tree_cache.h"

namespace rt::worker {

struct OutputOptions {
  std::string state_dir;  // Has the run directories in attempts/; <directory> is outputs/.
  Bytes bytes = limits::kOutputBytesMax;  // Of all ranks together; 0: nothing is kept.
  Millis wait_for_space = limits::kOutputsWaitForSpace;
  size_t waiting_max = limits::kOutputsWaitingMax / 2;
};

class OutputKeeper : public OutputKeeps {
 public:
  // `bundles`: unpacked ones. `on_done`: fewer are pending.
  OutputKeeper(OutputOptions options, BlobStore& store, OutputCalls& head, TreeCache& bundles,
               std::function<void()> on_done);
  ~OutputKeeper() override;
  // Continues with what earlier daemons took. Call it when the run directories that are left are
  // those of attempts that will be forgotten again.
  void Start();
  void Stop();  // What is under way is begun again by the next daemon.

  void Expect(const Fence& fence) override;
  void Take(const LaunchBody& body, const RunDir& dir, uint64_t whole_seq) override;
  void Keep(const Fence& fence) override;
  std::vector<Fence> Pending() const override;
  bool IsFull() const override;

 private:
  using Time = std::chrono::steady_clock::time_point;
  enum class Stage { kExpected, kTaken, kWaiting, kRunning };
  struct Entry {
    Stage stage = Stage::kExpected;
    uint64_t order = 0;
    Bytes bytes = 0;  // As far as known.
    int tries = 0;    // That failed for another reason than an outage.
    Millis pause = 0;
    Time not_before;
    Time first_at;  // When it was first tried.
    Time said_at;
    std::optional<SentOutputs> sent;  // The store has them.
    Time sent_at;
  };

  void Recover();
  void Run();
  std::optional<Fence> Next();
  void Finish(const Fence& fence, const absl::Status& kept);
  absl::Status KeepOne(const Fence& fence);
  absl::StatusOr<SentOutputs> Push(const Fence& fence);
  absl::StatusOr<SentOutputs> PushOrGiveUp(const Fence& fence);
  bool IsGivenUp(const Fence& fence, const absl::Status& why);
  absl::StatusOr<Written> Find(const Fence& fence);
  std::string directory() const { return options_.state_dir + "/outputs"; }
  std::string PathOf(const Fence& fence) const;
  bool HasRunDir(const std::string& name) const;
  void Say(const Fence& fence, const absl::Status& status);

  const OutputOptions options_;
  BlobStore& store_;
  OutputCalls& head_;
  TreeCache& bundles_;
  const std::function<void()> on_done_;
  std::vector<std::thread> threads_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  uint64_t next_order_ = 1;
  std::map<Fence, Entry> entries_;
};

}  // namespace rt::worker
