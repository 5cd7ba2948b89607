// The shipped log into a local journal: what a head does before it leads, and a standby and a
// restored state directory do from the beginning.
#include <condition_variable>
#include <mutex>

#include "common/base/status.h"
#include "head/journal/chain.h"
#include "head/journal/shipping_journal.h"

namespace rt {
namespace {

constexpr size_t kInFlightMax = 4;

absl::StatusOr<std::string> HashIn(Journal& local, uint64_t seq) {
  if (seq == 0) return ChainStart();
  return local.HashAt(seq);
}

// Appends with a bound on what is under way.
class Appender {
 public:
  explicit Appender(Journal& local) : local_(local) {}
  absl::Status Add(Batch batch) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return in_flight_ < kInFlightMax; });
    RT_RETURN_IF_ERROR(failure_);
    ++in_flight_;
    lock.unlock();
    local_.Append(std::move(batch), [this](absl::Status status) {
      std::lock_guard done(mutex_);
      failure_.Update(status);
      --in_flight_;
      changed_.notify_all();
    });
    return absl::OkStatus();
  }
  absl::Status Finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return in_flight_ == 0; });
    return failure_;
  }

 private:
  Journal& local_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t in_flight_ = 0;
  absl::Status failure_;
};

absl::Status Diverged(uint64_t seq) {
  return WithHint(absl::AbortedError(ToAbsl(
                      "the journal here and the shipped log have gone different ways at record " +
                      std::to_string(seq) + ": another head took over, and what this one wrote "
                      "since was never shipped")),
                  "restore into a new state directory (rt-head --restore-from), or follow the "
                  "other head with --standby");
}

}  // namespace

absl::Status CatchUp(ShippedLog& log, Journal& local) {
  uint64_t seq = local.durable_seq();
  RT_ASSIGN_OR_RETURN(std::string hash, HashIn(local, seq));
  Appender appender(local);
  absl::Status status;
  while (true) {
    absl::StatusOr<std::optional<LogSegment>> found = log.Next(seq + 1);
    // In a pack, or in the midst of a slot.
    if (found.ok() && !found->has_value()) found = log.Find(seq + 1);
    status = found.status();
    if (!status.ok() || !found->has_value()) break;
    LogSegment& segment = **found;
    const uint64_t from = segment.seq_from();
    const std::string& before = seq >= from ? segment.hashes[seq - from] : segment.hash_before;
    if (seq + 1 < from) status = absl::DataLossError("the shipped log has a gap");
    if (status.ok() && before != hash) status = Diverged(seq);
    if (!status.ok()) break;
    hash = segment.hash_after();
    const uint64_t to = segment.seq_to();
    status = appender.Add(TailOf(std::move(segment.batch), seq));
    if (!status.ok()) break;
    seq = to;
  }
  status.Update(appender.Finish());
  if (!status.ok()) return status;
  // Both encode the same records: another codec, or a fault, would show here.
  RT_ASSIGN_OR_RETURN(std::string kept, HashIn(local, seq));
  if (kept == hash) return absl::OkStatus();
  return absl::DataLossError("what was taken from the shipped log reads otherwise here");
}

}  // namespace rt
