#include "head/journal/postgres_journal.h"


#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/run/failpoint.h"
#include "common/base/strings.h"
#include "head/journal/append_queue.h"
#include "head/journal/chain.h"
#include "head/journal/codec.h"
#include "head/journal/libpq.h"
#include "head/journal/postgres_lead.h"
#include "head/journal/postgres_reads.h"
#include "head/journal/row_owners.h"

namespace rt {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kReconnectPause{100};
constexpr char kCopyEvents[] = "COPY rt_events FROM STDIN (FORMAT binary)";
constexpr char kCopyRows[] = "COPY rt_rows FROM STDIN (FORMAT binary)";
// An old connection may hold the lead's line for as long as its commit takes.
constexpr char kSettings[] = "SET lock_timeout = '5s'";

// A group of batches as one transaction writes it.
struct Transaction {
  std::string events, rows;  // For COPY; rows may be empty.
  uint64_t last_seq = 0;
  std::string last_hash;
};

class Encoder {
 public:
  Encoder(uint64_t seq, std::string hash) : seq_(seq), hash_(std::move(hash)) {}
  void Add(const Batch& batch) {
    RT_CHECK_BECAUSE(!batch.records.empty(), "a batch without records");
    for (const Record& record : batch.records) {
      RT_CHECK_BECAUSE(record.seq == seq_ + 1, "records leave a gap");
      const std::string body = EncodeRecord(record);
      hash_ = Chain(hash_, body);
      seq_ = record.seq;
      events_.Begin();
      events_.Add(record.seq);
      events_.Add(static_cast<uint64_t>(record.at));
      events_.Add(uint64_t{record.event.index()});
      events_.Add(std::string_view(body));
      events_.Add(std::string_view(hash_));
    }
    const std::vector<uint64_t> owners = RowOwners(batch);
    for (size_t i = 0; i < owners.size(); ++i) AddRows(owners[i], batch.rows[i]);
  }
  Transaction Take() {
    return {events_.Take(), rows_.empty() ? "" : rows_.Take(), seq_, std::move(hash_)};
  }

 private:
  void AddRows(uint64_t event_seq, const RowBatch& batch) {
    const std::string body = EncodeRows(batch);
    const Owner& owner = batch.attempt.owner;
    rows_.Begin();
    for (uint64_t value : {event_seq, static_cast<uint64_t>(owner.kind), owner.group,
                           uint64_t{owner.number}, uint64_t{batch.attempt.number},
                           uint64_t{batch.attempt.generation}, uint64_t{batch.rank},
                           batch.rows.empty() ? 0 : batch.rows.front().seq,
                           batch.rows.empty() ? 0 : batch.rows.back().seq})
      rows_.Add(value);
    rows_.Add(std::string_view(body));
    rows_.Add(std::string_view(RowsHash(event_seq, body)));
  }

  PostgresLines events_{5}, rows_{11};
  uint64_t seq_;
  std::string hash_;
};

class LeadingJournal final : public PostgresJournal {
 public:
  LeadingJournal(std::string url, PostgresJournalOptions options)
      : url_(std::move(url)), options_(std::move(options)), reads_(url_),
        queue_({.commit = [this](const auto& works) { return Commit(works); },
                .rest = [this](bool is_idle) { return Rest(is_idle); },
                .rest_after = milliseconds(options_.renew_every)}) {}
  ~LeadingJournal() override;
  absl::Status Begin();

  void Append(Batch batch, Done done) override { queue_.Push(std::move(batch), std::move(done)); }
  uint64_t durable_seq() const override { return durable_seq_; }
  absl::Status Read(uint64_t after_seq, const PostgresReads::Visit& visit) override {
    return reads_.Read(after_seq, visit);
  }
  absl::StatusOr<Batch> ReadBatch(uint64_t after_seq, size_t records_max) override {
    return durable_seq_ <= after_seq ? Batch{} : reads_.ReadBatch(after_seq, records_max);
  }
  absl::StatusOr<std::vector<StoredRows>> ReadRows(const Owner& owner, const RowPlace& after,
                                                   size_t bytes_max) override {
    return reads_.ReadRows(owner, after, bytes_max);
  }
  absl::StatusOr<std::string> HashAt(uint64_t seq) override { return reads_.HashAt(seq); }
  absl::StatusOr<std::optional<Snapshot>> LatestSnapshot(uint64_t seq_max) override {
    return reads_.LatestSnapshot(seq_max);
  }
  absl::Status WriteSnapshot(const Snapshot& snapshot) override {
    if (snapshot.seq <= durable_seq_) return Annotate(reads_.WriteSnapshot(snapshot), "snapshot");
    return absl::FailedPreconditionError("snapshot: its records are not durable yet");
  }
  uint64_t bytes_synced() const override { return bytes_synced_; }
  uint64_t lead_epoch() const override { return epoch_; }
  absl::Status SetAddress(const std::string& address) override {
    RT_ASSIGN_OR_RETURN(auto database, PostgresDatabase::Connect(url_));
    return SetPostgresAddress(*database, epoch_, address);
  }
  void GiveUpLead() override;

 private:
  absl::Status Connect();
  absl::Status Commit(const std::vector<AppendQueue::Work>& works);
  absl::Status Write(const Transaction& transaction);
  absl::Status Resolve(const Transaction& transaction);
  absl::Status EndOld(uint64_t backend);
  absl::Status Rest(bool is_idle);

  const std::string url_;
  const PostgresJournalOptions options_;
  PostgresReads reads_;

  // The writer's.
  std::unique_ptr<PostgresDatabase> database_;
  uint64_t epoch_ = 0;
  uint64_t last_seq_ = 0;
  std::string last_hash_;
  steady_clock::time_point unreachable_since_{};

  std::atomic<uint64_t> durable_seq_ = 0;
  std::atomic<uint64_t> bytes_synced_ = 0;
  AppendQueue queue_;  // The last: its thread uses all the others.
};

LeadingJournal::~LeadingJournal() { GiveUpLead(); }

void LeadingJournal::GiveUpLead() {
  queue_.Stop();
  if (database_ == nullptr || epoch_ == 0) return;
  absl::Status status = GiveUpPostgresLead(*database_, std::exchange(epoch_, 0));
  if (!status.ok() && !absl::IsAborted(status)) {
    RT_LOG(kWarning) << "journal: the lead is not given back: " << MessageOf(status);
  }
}

absl::Status LeadingJournal::Connect() {
  database_.reset();
  RT_ASSIGN_OR_RETURN(database_, PostgresDatabase::Connect(url_));
  return database_->Execute(kSettings);
}

absl::Status LeadingJournal::Begin() {
  RT_RETURN_IF_ERROR(Connect());
  RT_RETURN_IF_ERROR(PreparePostgresTables(*database_, options_.version));
  // What the database may lose after it said "committed" was never durable.
  RT_ASSIGN_OR_RETURN(PostgresResult unsafe, database_->Query(
      "SELECT name FROM pg_settings WHERE (name = 'synchronous_commit' AND setting = 'off')"
      " OR (name = 'fsync' AND setting = 'off')"));
  for (int i = 0; i < unsafe.size(); ++i) {
    RT_LOG(kWarning) << "journal: this database has " << unsafe.Bytes(i, 0)
                     << "=off: it forgets what it promised when its machine fails";
  }
  RT_ASSIGN_OR_RETURN(epoch_, TakePostgresLead(*database_, options_.holder, options_.stale_after));
  // Whoever led before can write nothing from here on: the end of the log is the end.
  RT_ASSIGN_OR_RETURN(PostgresResult last, database_->Query(
      "SELECT seq, hash FROM rt_events ORDER BY seq DESC LIMIT 1"));
  last_hash_ = last.size() == 1 ? std::string(last.Bytes(0, 1)) : ChainStart();
  last_seq_ = last.size() == 1 ? last.Number(0, 0) : 0;
  durable_seq_ = last_seq_;
  queue_.Start();
  return absl::OkStatus();
}

absl::Status LeadingJournal::Commit(const std::vector<AppendQueue::Work>& works) {
  Encoder encoder(last_seq_, last_hash_);
  for (const auto& work : works) encoder.Add(work.batch);
  const Transaction transaction = encoder.Take();
  absl::Status status = Write(transaction);
  if (absl::IsUnavailable(status)) status = Resolve(transaction);
  RT_RETURN_IF_ERROR(status);
  last_seq_ = transaction.last_seq;
  last_hash_ = transaction.last_hash;
  bytes_synced_ += transaction.events.size() + transaction.rows.size();
  durable_seq_ = last_seq_;
  return absl::OkStatus();
}

absl::Status LeadingJournal::Write(const Transaction& transaction) {
  if (database_ == nullptr) return absl::UnavailableError("the connection was lost");
  RT_RETURN_IF_ERROR(database_->Execute("BEGIN"));
  // Also locks the line: whoever takes the lead waits for this transaction, or this one for it.
  RT_RETURN_IF_ERROR(RenewPostgresLead(*database_, epoch_));
  RT_RETURN_IF_ERROR(database_->Copy(kCopyEvents, transaction.events));
  if (!transaction.rows.empty())
    RT_RETURN_IF_ERROR(database_->Copy(kCopyRows, transaction.rows));
  if (options_.before_commit) RT_RETURN_IF_ERROR(options_.before_commit());
  RT_RETURN_IF_ERROR(FailAt("head.journal.before_commit"));
  RT_RETURN_IF_ERROR(database_->Execute("COMMIT"));
  return FailAt("head.journal.after_commit");
}

// The connection is gone, and with it the answer: finds out what became of the transaction, and
// writes it again if it was not committed.
absl::Status LeadingJournal::Resolve(const Transaction& transaction) {
  const auto give_up_at = steady_clock::now() + milliseconds(options_.reconnect_for);
  uint64_t old = database_ == nullptr ? 0 : database_->backend_pid();
  while (true) {
    absl::Status status = Connect();
    if (status.ok()) status = EndOld(old);
    if (status.ok()) {
      auto found = database_->Query("SELECT hash FROM rt_events WHERE seq = $1",
                                    {transaction.last_seq});
      if (found.ok() && found->size() == 1) {
        if (found->Bytes(0, 0) == transaction.last_hash) return absl::OkStatus();
        return absl::AbortedError("another head has written to the journal");
      }
      old = database_->backend_pid();
      status = found.ok() ? Write(transaction) : found.status();
    }
    if (status.ok() || !absl::IsUnavailable(status)) return status;
    if (steady_clock::now() > give_up_at)
      return Annotate(status, "whether the last records were committed is unknown");
    std::this_thread::sleep_for(kReconnectPause);
  }
}

// The old connection's transaction holds the lead's line until it is committed or undone: once the
// line is ours, nothing of it is under way. Aborted when another head has taken the lead.
absl::Status LeadingJournal::EndOld(uint64_t backend) {
  if (backend != 0) {
    RT_RETURN_IF_ERROR(database_->Query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1"
        " AND usename = current_user AND datname = current_database()", {backend}).status());
  }
  return RenewPostgresLead(*database_, epoch_);
}

absl::Status LeadingJournal::Rest(bool is_idle) {
  if (!is_idle) return absl::OkStatus();
  absl::Status status = database_ == nullptr ? Connect() : absl::OkStatus();
  if (status.ok()) status = RenewPostgresLead(*database_, epoch_);
  if (status.ok()) {
    unreachable_since_ = {};
    return status;
  }
  if (absl::IsUnavailable(status)) {
    // Nothing is under way on this connection. Another head may take the lead meanwhile: the next
    // renewal tells.
    database_.reset();
    const auto now = steady_clock::now();
    if (unreachable_since_ == steady_clock::time_point{}) unreachable_since_ = now;
    if (now - unreachable_since_ < milliseconds(options_.reconnect_for)) return absl::OkStatus();
  }
  if (options_.on_lost) options_.on_lost(status);
  return status;
}

}  // namespace

bool IsPostgresUrl(std::string_view text) {
  return text.starts_with("postgres://") || text.starts_with("postgresql://");
}

absl::Status CheckPostgresUrl(const std::string& url) {
  char* message = nullptr;
  RT_RETURN_IF_ERROR(OpenLibPq().status());
  PQconninfoOption* options = Pq().PQconninfoParse(url.c_str(), &message);
  if (options == nullptr) {
    const std::string why = message == nullptr ? "it is malformed" : std::string(Trim(message));
    Pq().PQfreemem(message);
    return Invalid(why, "for example postgres://rt@db.lan/rt?passfile=/etc/rt/pgpass");
  }
  bool has_password = false;
  for (const PQconninfoOption* option = options; option->keyword != nullptr; ++option)
    has_password = has_password || (std::string_view(option->keyword) == "password" &&
                                    option->val != nullptr);
  Pq().PQconninfoFree(options);
  if (!has_password) return absl::OkStatus();
  return Invalid("a password in the URL ends up in files and logs",
                 "put it into a file that only you can read, and name that: ?passfile=FILE");
}

absl::StatusOr<std::unique_ptr<PostgresJournal>> OpenPostgresJournal(
    const std::string& url, PostgresJournalOptions options) {
  RT_RETURN_IF_ERROR(Annotate(CheckPostgresUrl(url), "journal"));
  auto journal = std::make_unique<LeadingJournal>(url, std::move(options));
  RT_RETURN_IF_ERROR(Annotate(journal->Begin(), "journal " + url));
  return journal;
}

}  // namespace rt
