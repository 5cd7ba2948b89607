// What a rank that trains reads of a data set: a model of python/rt/data (docs/adr/0027, "Data").
// A rank takes its share of an epoch in batches, all ranks take equally many, and what each took is
// part of the checkpoint that they save together. After a restart the ranks continue there; at
// another number of ranks the rest of the epoch is split anew.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/ids.h"

namespace rt::sim {

// Rows of an epoch: [first, end) in ascending order.
using RowRanges = std::vector<std::pair<uint64_t, uint64_t>>;

// The data set of a trial: its rows, and how many times they are read.
struct DataSet {
  uint64_t rows = 0;
  uint64_t epochs = 0;
  uint64_t batch_rows = 0;

  static DataSet Of(const Owner& owner);
};

// Where a rank is in a pass.
struct ShardPosition {
  uint32_t world_size = 1;
  uint64_t epoch = 0;
  uint64_t taken = 0;               // Rows of its share that it trained with.
  bool is_over = false;             // It took its last batch of the pass.
  std::optional<RowRanges> within;  // The rows that all ranks take in the pass; nullopt: all.
};

struct DataBatch {
  uint64_t epoch = 0;
  RowRanges rows;
};

class Shard {
 public:
  Shard(const DataSet& data, uint32_t rank, uint32_t world_size)
      : data_(data), rank_(rank), at_{.world_size = world_size} {}
  // Continues where the ranks of a checkpoint were, by rank; a rank without a position took as many
  // rows as the first that has one.
  void Resume(const std::map<uint32_t, ShardPosition>& positions);
  // The next batch; nullopt after the last epoch.
  std::optional<DataBatch> Take();
  // For a checkpoint that is saved after the batch that was taken last.
  const ShardPosition& position() const { return at_; }

 private:
  void Join(const std::map<uint32_t, ShardPosition>& positions);
  uint64_t Left() const;
  uint64_t BatchSize() const;
  void BeginEpoch();

  const DataSet data_;
  const uint32_t rank_;
  ShardPosition at_;
};

}  // namespace rt::sim
