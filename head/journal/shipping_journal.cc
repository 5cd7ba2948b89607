#include "head/journal/shipping_journal.h"

#include <time.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/run/failpoint.h"
#include "head/journal/packer.h"
#include "head/journal/snapshot_bytes.h"

namespace rt {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Of one object: small enough to be put in one piece, large enough to keep up with any burst.
constexpr size_t kRecordsMax = 20'000;
constexpr milliseconds kRetryFirst{50}, kRetryMost{2'000};
constexpr Millis kSnapshotWait = 60'000;
constexpr milliseconds kComplainEvery{60'000};
constexpr char kBeyond[] = "rt: beyond what is durable";  // Ends a reading.

Millis BootClock() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return Millis{now.tv_sec} * 1'000 + now.tv_nsec / 1'000'000;
}

class Shipper final : public ShippingJournal {
 public:
  Shipper(std::unique_ptr<Journal> local, ObjectStore& store, ShippingOptions options)
      : options_(std::move(options)), local_(std::move(local)), log_(store),
        packer_(std::make_unique<Packer>(log_, *local_, options_.writer, options_.pack_bytes,
                                         options_.kept_for)) {}
  ~Shipper() override;
  absl::Status Begin();

  void Append(Batch batch, Done done) override;
  uint64_t durable_seq() const override { return durable_seq_; }
  std::optional<uint64_t> shipped_seq() const override { return shipped_seq_; }
  absl::Status Read(uint64_t after_seq,
                    const std::function<absl::Status(const Record&)>& visit) override;
  absl::StatusOr<Batch> ReadBatch(uint64_t after_seq, size_t records_max) override;
  absl::StatusOr<std::vector<StoredRows>> ReadRows(const Owner& owner, const RowPlace& after,
                                                   size_t bytes_max) override;
  absl::StatusOr<std::string> HashAt(uint64_t seq) override { return local_->HashAt(seq); }
  absl::StatusOr<std::optional<Snapshot>> LatestSnapshot(uint64_t seq_max) override {
    return local_->LatestSnapshot(seq_max);
  }
  absl::Status WriteSnapshot(const Snapshot& snapshot) override;
  absl::Status Flush(Millis wait_for) override;
  uint64_t bytes_synced() const override { return local_->bytes_synced(); }

 private:
  struct Waiting {
    uint64_t seq = 0;
    Done done;
  };

  void Run();
  bool AwaitWork();
  absl::Status ShipNext();
  absl::Status Put(uint64_t seq, const std::string& bytes);
  absl::Status CheckSilence();
  bool MayTryAgain(const absl::Status& status, steady_clock::time_point began);
  void OnLocal(uint64_t seq, absl::Status status, Done done);
  void Release();
  void Fail(const absl::Status& status);

  const ShippingOptions options_;
  std::unique_ptr<Journal> local_;
  ShippedLog log_;
  std::unique_ptr<Packer> packer_;

  // The shipping thread's, once it runs.
  uint64_t epoch_ = 0;
  std::string hash_;
  std::string last_slot_;
  Millis heard_at_ = 0;  // By the boot clock: when the log was last known to be ours.
  steady_clock::time_point complained_at_{};

  std::mutex release_mutex_;  // Held while `done`s are called: one after the other, in order.
  mutable std::mutex mutex_;  // Guards what follows.
  mutable std::condition_variable changed_;
  std::deque<Waiting> waiting_;  // Durable here, or failed.
  uint64_t local_seq_ = 0;
  bool leads_ = false;  // Its first slot is written: the log is its own.
  bool stopping_ = false;
  absl::Status failure_;

  std::atomic<uint64_t> durable_seq_ = 0;
  std::atomic<uint64_t> shipped_seq_ = 0;
  std::thread thread_;
};

Shipper::~Shipper() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  packer_.reset();
  local_.reset();  // What it still commits comes to OnLocal.
  {
    std::lock_guard lock(mutex_);
    failure_.Update(absl::UnavailableError("the journal is closed"));
  }
  Release();
}

absl::Status Shipper::Begin() {
  RT_RETURN_IF_ERROR(CatchUp(log_, *local_));
  RT_ASSIGN_OR_RETURN(ShippedLog::End end, log_.FindEnd());
  local_seq_ = local_->durable_seq();
  if (end.seq > local_seq_) return absl::AbortedError("another head is writing the shipped log");
  // CatchUp has compared the hashes where the log ended, unless it ends before ours does.
  std::string hash = end.hash;
  if (end.seq > 0) {
    RT_ASSIGN_OR_RETURN(hash, local_->HashAt(end.seq));
  }
  if (hash != end.hash)
    return absl::AbortedError("the shipped log is that of another journal");
  epoch_ = end.epoch;
  hash_ = end.hash;
  last_slot_ = end.slot;
  shipped_seq_ = end.seq;
  heard_at_ = options_.boot_clock();
  // What was never shipped goes first: a head of ours, before this one, had told people of it.
  while (shipped_seq_ < local_seq_) RT_RETURN_IF_ERROR(ShipNext());
  durable_seq_ = local_seq_;
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void Shipper::Append(Batch batch, Done done) {
  const uint64_t seq = batch.records.empty() ? 0 : batch.records.back().seq;
  local_->Append(std::move(batch), [this, seq, done = std::move(done)](absl::Status status) {
    OnLocal(seq, std::move(status), done);
  });
}

// On the local journal's thread.
void Shipper::OnLocal(uint64_t seq, absl::Status status, Done done) {
  {
    std::lock_guard lock(mutex_);
    failure_.Update(status);
    if (status.ok()) local_seq_ = seq;
    waiting_.push_back({seq, std::move(done)});
  }
  changed_.notify_all();
  Release();
}

// Tells everybody whose records are durable, by the measure of the mode, or never will be.
void Shipper::Release() {
  std::lock_guard one_at_a_time(release_mutex_);
  while (true) {
    Waiting next;
    absl::Status status;
    {
      std::lock_guard lock(mutex_);
      if (waiting_.empty()) return;
      const bool waits_for_store = options_.mode == ShipMode::kSync || !leads_;
      const uint64_t durable = waits_for_store ? shipped_seq_.load() : local_seq_;
      status = failure_;
      if (status.ok() && waiting_.front().seq > durable) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
      if (status.ok()) durable_seq_ = next.seq;
    }
    next.done(status);
  }
}

void Shipper::Fail(const absl::Status& status) {
  {
    std::lock_guard lock(mutex_);
    failure_.Update(status);
  }
  changed_.notify_all();
  Release();
  if (options_.on_lost) options_.on_lost(status);
}

// False: the journal is being closed, or has failed.
bool Shipper::AwaitWork() {
  std::unique_lock lock(mutex_);
  const auto over = [this] { return stopping_ || !failure_.ok(); };
  const auto ready = [&] { return over() || local_seq_ > shipped_seq_; };
  changed_.wait(lock, ready);
  if (options_.mode == ShipMode::kAsync && leads_)
    changed_.wait_for(lock, milliseconds(options_.ship_every), over);
  return !over();
}

void Shipper::Run() {
  while (AwaitWork()) {
    absl::Status status = ShipNext();
    if (!status.ok()) {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    if (!status.ok()) return Fail(status);
    {
      std::lock_guard lock(mutex_);
      leads_ = true;
    }
    changed_.notify_all();
    Release();
    packer_->Consider(shipped_seq_);
  }
}

absl::Status Shipper::ShipNext() {
  LogSegment segment{.epoch = epoch_, .writer = options_.writer, .hash_before = hash_};
  RT_ASSIGN_OR_RETURN(segment.batch, local_->ReadBatch(shipped_seq_, kRecordsMax));
  for (const Record& record : segment.batch.records) {
    if (const auto* started = std::get_if<event::HeadStarted>(&record.event))
      segment.epoch = started->epoch;
  }
  const std::string bytes = EncodeSegment(segment);
  RT_RETURN_IF_ERROR(CheckSilence());
  const bool takes_log = segment.epoch != epoch_;
  if (takes_log) ReachFailpoint("head.ship.before_fence");
  RT_RETURN_IF_ERROR(Put(segment.seq_from(), bytes));
  if (takes_log) ReachFailpoint("head.ship.after_fence");
  packer_->Add(static_cast<Bytes>(bytes.size()));
  epoch_ = segment.epoch;
  hash_ = segment.hash_after();
  last_slot_ = "log/" + SeqName(segment.seq_from());
  shipped_seq_ = segment.seq_to();
  return absl::OkStatus();
}

// Slots go after a week: one that is free after so long a silence may have been somebody else's.
absl::Status Shipper::CheckSilence() {
  const Millis now = options_.boot_clock();
  if (now - heard_at_ <= options_.silence_max || last_slot_.empty()) return absl::OkStatus();
  RT_ASSIGN_OR_RETURN(std::optional<ObjectInfo> slot, log_.store().Look(last_slot_));
  if (!slot.has_value())
    return absl::AbortedError("this head was silent for so long that its slots are gone");
  heard_at_ = now;
  return absl::OkStatus();
}

absl::Status Shipper::Put(uint64_t seq, const std::string& bytes) {
  const auto began = steady_clock::now();
  milliseconds pause = kRetryFirst;
  while (true) {
    absl::Status status = log_.Append(seq, bytes);
    if (status.ok()) {
      const Millis now = options_.boot_clock();
      if (now - heard_at_ > options_.silence_max)
        return absl::AbortedError("this head stood still for so long that its slot proves nothing");
      heard_at_ = now;
      return status;
    }
    if (!MayTryAgain(status, began)) return Annotate(status, "shipping the journal");
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, pause, [this] { return stopping_; });
    pause = std::min(2 * pause, kRetryMost);
  }
}

bool Shipper::MayTryAgain(const absl::Status& status, steady_clock::time_point began) {
  const auto now = steady_clock::now();
  {
    std::lock_guard lock(mutex_);
    if (absl::IsAborted(status) || stopping_) return false;
  }
  const bool is_bounded = options_.mode == ShipMode::kSync || !leads_;
  if (is_bounded && now - began > milliseconds(options_.retry_for)) return false;
  if (complained_at_ == steady_clock::time_point{} || now - complained_at_ > kComplainEvery) {
    complained_at_ = now;
    RT_LOG(kWarning) << "shipping the journal: " << MessageOf(status) << "; it is tried again";
  }
  return true;
}

absl::Status Shipper::Read(uint64_t after_seq,
                           const std::function<absl::Status(const Record&)>& visit) {
  const uint64_t durable = durable_seq_;
  absl::Status status = local_->Read(after_seq, [&](const Record& record) {
    if (record.seq > durable) return absl::OutOfRangeError(kBeyond);
    return visit(record);
  });
  return MessageOf(status) == kBeyond ? absl::OkStatus() : status;
}

absl::StatusOr<Batch> Shipper::ReadBatch(uint64_t after_seq, size_t records_max) {
  const uint64_t durable = durable_seq_;
  if (after_seq >= durable) return Batch{};
  return local_->ReadBatch(after_seq, std::min<uint64_t>(records_max, durable - after_seq));
}

absl::StatusOr<std::vector<StoredRows>> Shipper::ReadRows(const Owner& owner,
                                                          const RowPlace& after,
                                                          size_t bytes_max) {
  const uint64_t durable = durable_seq_;
  for (RowPlace place = after;;) {
    RT_ASSIGN_OR_RETURN(std::vector<StoredRows> rows, local_->ReadRows(owner, place, bytes_max));
    if (rows.empty()) return rows;
    place = PlaceOf(rows.back());
    std::erase_if(rows, [&](const StoredRows& stored) { return stored.event_seq > durable; });
    if (!rows.empty()) return rows;  // None is left: those of another rank may follow.
  }
}

absl::Status Shipper::WriteSnapshot(const Snapshot& snapshot) {
  RT_RETURN_IF_ERROR(local_->WriteSnapshot(snapshot));
  {
    // A snapshot in the store is of records that are there.
    std::unique_lock lock(mutex_);
    const auto is_shipped = [&] {
      return stopping_ || !failure_.ok() || shipped_seq_ >= snapshot.seq;
    };
    const bool waited = changed_.wait_for(lock, milliseconds(kSnapshotWait), is_shipped);
    if (!waited || shipped_seq_ < snapshot.seq)
      return absl::UnavailableError("snapshot: its records are not shipped");
  }
  RT_ASSIGN_OR_RETURN(std::string hash, local_->HashAt(snapshot.seq));
  return Annotate(log_.WriteSnapshot(snapshot.seq, SealSnapshot(snapshot, hash)),
                  "shipping a snapshot");
}

absl::Status Shipper::Flush(Millis wait_for) {
  std::unique_lock lock(mutex_);
  const auto is_over = [this] { return !failure_.ok() || shipped_seq_ >= local_seq_; };
  if (changed_.wait_for(lock, milliseconds(wait_for), is_over)) return failure_;
  return absl::DeadlineExceededError("the last records are not shipped");
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShippingJournal>> OpenShippingJournal(
    std::unique_ptr<Journal> local, ObjectStore& store, ShippingOptions options) {
  RT_CHECK_BECAUSE(!options.writer.empty(), "a shipping journal needs a writer's name");
  if (!options.boot_clock) options.boot_clock = BootClock;
  auto journal = std::make_unique<Shipper>(std::move(local), store, std::move(options));
  RT_RETURN_IF_ERROR(Annotate(journal->Begin(), "the shipped journal"));
  return journal;
}

}  // namespace rt
