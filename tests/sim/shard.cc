#include "tests/sim/shard.h"

#include <algorithm>

#include "common/base/rng.h"

namespace rt::sim {
namespace {

uint64_t SizeOf(const RowRanges& ranges) {
  uint64_t size = 0;
  for (const auto& [first, end] : ranges) size += end - first;
  return size;
}

// The rows number `first` to `end` - 1 of those in the ranges.
RowRanges PartOf(const RowRanges& ranges, uint64_t first, uint64_t end) {
  RowRanges part;
  uint64_t at = 0;
  for (const auto& [low, high] : ranges) {
    const uint64_t size = high - low;
    const uint64_t from = std::max(first, at), to = std::min(end, at + size);
    if (from < to) part.push_back({low + from - at, low + to - at});
    at += size;
  }
  return part;
}

RowRanges AllOf(const DataSet& data, const ShardPosition& at) {
  return at.within.value_or(RowRanges{{0, data.rows}});
}

// Contiguous, in the order of the ranks; the first ranks have one row more.
RowRanges ShareOf(const RowRanges& all, uint32_t rank, uint32_t world_size) {
  const uint64_t rows = SizeOf(all), small = rows / world_size, longer = rows % world_size;
  const uint64_t first = rank * small + std::min<uint64_t>(rank, longer);
  return PartOf(all, first, first + small + (rank < longer ? 1 : 0));
}

}  // namespace

DataSet DataSet::Of(const Owner& owner) {
  const uint64_t draw = Mix64(owner.group * 104'729 + owner.number);
  return {.rows = 11 + draw % 23, .epochs = 1 + draw / 32 % 3, .batch_rows = 2 + draw / 128 % 3};
}

void Shard::Resume(const std::map<uint32_t, ShardPosition>& positions) {
  if (positions.empty()) return;
  const auto& [first, theirs] = *positions.begin();
  if (theirs.world_size != at_.world_size) return Join(positions);
  const auto own = positions.find(rank_);
  at_ = own == positions.end() ? theirs : own->second;
  at_.taken = std::min(at_.taken, SizeOf(ShareOf(AllOf(data_, at_), rank_, at_.world_size)));
}

// What the ranks of the checkpoint had left of their pass is a pass of its own.
void Shard::Join(const std::map<uint32_t, ShardPosition>& positions) {
  const ShardPosition& first = positions.begin()->second;
  RowRanges rest;
  for (uint32_t rank = 0; rank < first.world_size; ++rank) {
    const auto known = positions.find(rank);
    const ShardPosition& at = known == positions.end() ? first : known->second;
    const RowRanges share = ShareOf(AllOf(data_, at), rank, first.world_size);
    for (const auto& piece : PartOf(share, at.taken, SizeOf(share))) rest.push_back(piece);
  }
  std::sort(rest.begin(), rest.end());
  at_.epoch = first.epoch;
  at_.within = std::move(rest);
}

uint64_t Shard::Left() const {
  return SizeOf(ShareOf(AllOf(data_, at_), rank_, at_.world_size)) - at_.taken;
}

// All ranks have equally many batches: the last one takes the row that some shares have more.
uint64_t Shard::BatchSize() const {
  const uint64_t small = SizeOf(AllOf(data_, at_)) / at_.world_size;
  const uint64_t least = small > at_.taken ? small - at_.taken : 0;
  return least > data_.batch_rows ? data_.batch_rows : Left();
}

void Shard::BeginEpoch() {
  ++at_.epoch;
  at_.taken = 0;
  at_.is_over = false;
  at_.within.reset();
}

std::optional<DataBatch> Shard::Take() {
  if (at_.is_over || SizeOf(AllOf(data_, at_)) == 0) BeginEpoch();
  if (at_.epoch >= data_.epochs) return std::nullopt;
  const uint64_t size = BatchSize();
  const RowRanges share = ShareOf(AllOf(data_, at_), rank_, at_.world_size);
  DataBatch batch{at_.epoch, PartOf(share, at_.taken, at_.taken + size)};
  at_.taken += size;
  at_.is_over = Left() == 0;  // A rank whose share of a rest is empty has one batch of no rows.
  return batch;
}

}  // namespace rt::sim
