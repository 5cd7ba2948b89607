// The auditor's part about ranks that train together: the barriers that they pass, and the rows of
// a data set that they take.
#include <tuple>

#include "tests/sim/auditor.h"

namespace rt::sim {

void Auditor::CheckPassed(const Fence& fence, uint64_t number, const Truth& truth) const {
  const auto meeting = meetings_.find(fence.attempt);
  Must(meeting != meetings_.end(), "no rank passes a barrier before the ranks have met");
  for (uint32_t rank = 0; rank < meeting->second.second; ++rank) {
    const auto arrived = truth.arrived.find({fence.attempt, rank});
    Must(arrived != truth.arrived.end() && arrived->second >= number,
         "no rank passes a barrier before every rank has arrived at it");
  }
}

// What all ranks took of an epoch, by the attempts that this one goes on from: of each of those, up
// to the report with which the checkpoint was saved. Fails for a row that was taken twice.
std::set<uint64_t> Auditor::RowsTaken(const AttemptId& attempt, uint64_t epoch,
                                      const Truth& truth) const {
  std::set<uint64_t> rows;
  AttemptId at = attempt;
  uint64_t until = UINT64_MAX;
  while (true) {
    for (auto run = truth.runs.lower_bound({at, 0});
         run != truth.runs.end() && run->first.attempt == at; ++run) {
      for (const TakenBatch& taken : run->second.taken) {
        if (taken.seq > until || taken.batch.epoch != epoch) continue;
        for (const auto& [first, end] : taken.batch.rows)
          for (uint64_t row = first; row < end; ++row)
            Must(rows.insert(row).second, "a row of an epoch is taken once");
      }
    }
    const Start& start = starts_.at(at);
    if (start.run == RunOrder{}) return rows;
    std::tie(at.number, at.generation) = start.run;
    until = start.seq;
  }
}

void Auditor::CheckTaken(const Fence& fence, const Truth& truth) const {
  const uint64_t epoch = truth.runs.at(fence).taken.back().batch.epoch;
  RowsTaken(fence.attempt, epoch, truth);
  if (epoch == 0) return;
  const size_t before = RowsTaken(fence.attempt, epoch - 1, truth).size();
  Must(before == DataSet::Of(fence.attempt.owner).rows, "no row of an epoch is left out");
}

void Auditor::CheckReadAll(const Fence& fence, const Truth& truth) const {
  const DataSet data = DataSet::Of(fence.attempt.owner);
  for (uint64_t epoch = 0; epoch < data.epochs; ++epoch)
    Must(RowsTaken(fence.attempt, epoch, truth).size() == data.rows,
         "no row of an epoch is left out");
}

}  // namespace rt::sim
