// The compute lane: one thread of low priority on which search models think (adr/0026), and on
// which the ranks of elastic attempts are shared out (adr/0035), so that the core thread waits for
// neither. It takes jobs in the order in which they come, of each experiment one at a time, so
// every experiment has its turn. A model has a time limit that it is told of, and may refuse or
// throw; one that ignores the limit delays the lane, not the core. The thread starts with the first
// job. Owned by the loop; Ask and Take run on the core thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "head/core/elastic.h"
#include "head/core/lane.h"

namespace rt {

class ComputeLane {
 public:
  // Called on the lane's thread.
  using AnswerFn = std::function<void(Input answered)>;

  explicit ComputeLane(AnswerFn answered) : answered_(std::move(answered)) {}
  ~ComputeLane();  // Asks the model that runs to give up, and waits for it.

  // Hands over the jobs that the state asks for now. Returns answers in place of those that are
  // overdue, for Step.
  std::vector<input::LaneAnswered> Ask(const Core& core, Millis now);
  // What the lane answered has arrived.
  void Take(const Input& input);

 private:
  // An experiment: its model is dropped.
  using Item = std::variant<LaneJob, ExperimentId, ElasticQuestion>;

  void Submit(Item item);
  void Run();
  void Answer(const LaneJob& job);
  void Answer(const ElasticQuestion& question);
  GiveUp Deadline() const;  // Of an answer that begins now.

  const AnswerFn answered_;
  LaneDesk desk_;  // The core thread's, as the next one.
  ElasticDesk elastic_;
  std::map<ExperimentId, LaneModel> models_;  // The lane's thread's.
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;  // Guards the queue.
  std::condition_variable changed_;
  std::deque<Item> queue_;
  std::thread thread_;
};

}  // namespace rt
