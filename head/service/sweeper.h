// Removes from the blob store what the state does not name: a thread that now and then gathers the
// manifests of every checkpoint, bundle and input, a slice of the state per turn of the core
// thread, and sweeps. A manifest counts as dead when two gatherings in a row did not see it: what
// changed places between two slices of one was there in the other.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "common/cas/blob_store.h"
#include "head/loop/head_loop.h"

namespace rt {

struct SweepTimes {
  Millis every = 600'000;
  Millis grace = 3'600'000;  // SweptStore::Sweep.
  // The same while pushes wait for room; one that takes longer finds chunks gone and sends them
  // again.
  Millis every_when_short = 20'000;
  Millis grace_when_short = 60'000;
};

class BlobSweeper {
 public:
  BlobSweeper(HeadLoop& loop, SweptStore& store, SweepTimes times);
  ~BlobSweeper();  // Waits for a sweep under way.

  // One round: gathers, and sweeps unless it is the first or nothing happened for long. On any
  // thread but the loop's.
  absl::Status RunOnce();
  Millis NextRound() const;  // How long until it.

 private:
  struct Live {
    std::set<std::string> manifests;
    uint64_t seq = 0;  // Of the state when the gathering began.
  };
  absl::StatusOr<Live> Gather();
  void Work();

  HeadLoop& loop_;
  SweptStore& store_;
  const SweepTimes times_;
  bool gathered_ = false;
  std::set<std::string> seen_before_;
  uint64_t swept_seq_ = 0;
  int64_t idle_rounds_ = 0;  // Since something happened.
  std::atomic<int> short_rounds_ = 0;  // Hurried ones to come.
  int64_t in_vain_ = 0;  // Hurried ones in a row in which there was nothing to sweep.
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace rt
