#include "head/journal/memory_journal.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"
#include "head/journal/chain.h"
#include "head/journal/codec.h"
#include "head/journal/row_owners.h"

namespace rt {

void MemoryJournal::Append(Batch batch, Done done) {
  Pending pending{std::move(batch), std::move(done)};
  {
    std::lock_guard lock(mutex_);
    RT_CHECK_BECAUSE(!pending.batch.records.empty(), "a batch without records");
    for (const Record& record : pending.batch.records) {
      RT_CHECK_BECAUSE(record.seq == ++appended_seq_, "records leave a gap");
    }
    if (hold_) {
      pending_.push_back(std::move(pending));
      return;
    }
  }
  Settle(std::move(pending));
}

void MemoryJournal::Settle(Pending pending) {
  absl::Status status;
  {
    std::lock_guard lock(mutex_);
    status = failure_;
    if (status.ok()) {
      std::vector<uint64_t> owners = RowOwners(pending.batch);
      for (size_t i = 0; i < owners.size(); ++i) {
        rows_.push_back({owners[i], std::move(pending.batch.rows[i])});
      }
      std::move(pending.batch.records.begin(), pending.batch.records.end(),
                std::back_inserter(records_));
      durable_seq_ = records_.size();
    }
  }
  pending.done(status);
}

absl::Status MemoryJournal::Read(uint64_t after_seq,
                                 const std::function<absl::Status(const Record&)>& visit) {
  for (uint64_t seq = after_seq;; ++seq) {
    Record record;
    {
      std::lock_guard lock(mutex_);
      if (seq >= records_.size()) return absl::OkStatus();
      record = records_[seq];
    }
    RT_RETURN_IF_ERROR(visit(record));
  }
}

absl::StatusOr<Batch> MemoryJournal::ReadBatch(uint64_t after_seq, size_t records_max) {
  std::lock_guard lock(mutex_);
  Batch batch;
  const uint64_t end = std::min<uint64_t>(records_.size(), after_seq + records_max);
  for (uint64_t seq = after_seq; seq < end; ++seq) batch.records.push_back(records_[seq]);
  auto first = std::partition_point(rows_.begin(), rows_.end(), [&](const StoredRows& rows) {
    return rows.event_seq <= after_seq;
  });
  for (; first != rows_.end() && first->event_seq <= end; ++first) {
    batch.rows.push_back(first->batch);
  }
  return batch;
}

absl::StatusOr<std::vector<StoredRows>> MemoryJournal::ReadRows(const Owner& owner,
                                                                const RowPlace& after,
                                                                size_t bytes_max) {
  std::lock_guard lock(mutex_);
  std::vector<StoredRows> found;
  for (const StoredRows& rows : rows_)
    if (rows.batch.attempt.owner == owner && PlaceOf(rows) > after) found.push_back(rows);
  std::sort(found.begin(), found.end(), [](const StoredRows& a, const StoredRows& b) {
    return PlaceOf(a) < PlaceOf(b);
  });
  size_t bytes = 0, count = 0;
  for (; count < found.size() && bytes < bytes_max; ++count)
    for (const Row& row : found[count].batch.rows) bytes += row.metrics.size();
  found.resize(count);
  return found;
}

absl::StatusOr<std::string> MemoryJournal::HashAt(uint64_t seq) {
  std::lock_guard lock(mutex_);
  if (seq == 0 || seq > records_.size())
    return absl::DataLossError("record " + std::to_string(seq) + " is missing");
  std::string hash = ChainStart();
  for (size_t i = 0; i < seq; ++i) hash = Chain(hash, EncodeRecord(records_[i]));
  return hash;
}

absl::StatusOr<std::optional<Snapshot>> MemoryJournal::LatestSnapshot(uint64_t seq_max) {
  std::lock_guard lock(mutex_);
  auto after = snapshots_.upper_bound(seq_max);
  if (after == snapshots_.begin()) return std::nullopt;
  return std::prev(after)->second;
}

absl::Status MemoryJournal::WriteSnapshot(const Snapshot& snapshot) {
  std::lock_guard lock(mutex_);
  if (!failure_.ok()) return failure_;
  if (snapshot.seq > records_.size()) {
    return absl::FailedPreconditionError("snapshot: its records are not durable yet");
  }
  snapshots_[snapshot.seq] = snapshot;
  if (snapshots_.size() > 2) snapshots_.erase(snapshots_.begin());
  return absl::OkStatus();
}

void MemoryJournal::Hold(bool hold) {
  {
    std::lock_guard lock(mutex_);
    hold_ = hold;
  }
  if (!hold) Release();
}

size_t MemoryJournal::Release(size_t batches) {
  size_t released = 0;
  for (; released < batches; ++released) {
    Pending pending;
    {
      std::lock_guard lock(mutex_);
      if (pending_.empty()) break;
      pending = std::move(pending_.front());
      pending_.pop_front();
    }
    Settle(std::move(pending));
  }
  return released;
}

size_t MemoryJournal::waiting() const {
  std::lock_guard lock(mutex_);
  return pending_.size();
}

void MemoryJournal::Fail(absl::Status status) {
  std::lock_guard lock(mutex_);
  failure_ = std::move(status);
}

void MemoryJournal::Crash() {
  std::lock_guard lock(mutex_);
  pending_.clear();
  failure_ = absl::OkStatus();
  hold_ = false;
  appended_seq_ = records_.size();
}

}  // namespace rt
