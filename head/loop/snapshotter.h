// Writes a snapshot of the state now and then, on a thread of its own. It is not a copy of the live
// state: the thread replays the journal from the snapshot before, so the core thread never stops
// for it, however large the state is, and what is written is by construction what a restart would
// have come to.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "head/journal/journal.h"

namespace rt {

class Snapshotter {
 public:
  // `last_seq`: of the newest snapshot there is; 0 when there is none.
  Snapshotter(Journal& journal, uint64_t every_events, uint64_t last_seq)
      : journal_(journal), every_events_(every_events), last_seq_(last_seq) {}
  ~Snapshotter();  // Waits for one that is being written.

  // Starts one when enough events became durable since the last. Core thread; returns at once.
  void Consider(uint64_t durable_seq);

 private:
  absl::Status Write(uint64_t seq);

  Journal& journal_;
  const uint64_t every_events_;
  uint64_t last_seq_;
  std::atomic<bool> running_ = false;
  std::thread thread_;
};

}  // namespace rt
