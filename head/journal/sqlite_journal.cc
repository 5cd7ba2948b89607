#include "head/journal/sqlite_journal.h"

#include <sqlite3.h>

#include <atomic>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/run/failpoint.h"
#include "head/journal/append_queue.h"
#include "head/journal/chain.h"
#include "head/journal/codec.h"
#include "head/journal/row_owners.h"
#include "head/journal/snapshot_files.h"
#include "head/journal/sqlite_file.h"
#include "head/journal/sqlite_reads.h"

namespace rt {
namespace {

// The write-ahead log is copied back when it is this long, or when nothing is to be written.
constexpr uint64_t kCheckpointPages = (64u << 20) / kJournalPageBytes;

class SqliteJournal final : public Journal {
 public:
  SqliteJournal(std::unique_ptr<SqliteFile> file, SqliteJournalOptions options)
      : options_(std::move(options)), file_(std::move(file)), reads_(*file_),
        snapshots_(file_->path() + ".snapshots"),
        queue_({.commit = [this](const auto& works) { return Commit(works); },
                .rest = [this](bool is_idle) { return Rest(is_idle); }}) {}
  absl::Status Begin();

  void Append(Batch batch, Done done) override { queue_.Push(std::move(batch), std::move(done)); }
  uint64_t durable_seq() const override { return durable_seq_; }
  absl::Status Read(uint64_t after_seq, const SqliteReads::Visit& visit) override {
    return reads_.Read(after_seq, INT64_MAX - 1, visit);
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
    return snapshots_.Latest(seq_max, [this](uint64_t seq) { return reads_.HashAt(seq); });
  }
  absl::Status WriteSnapshot(const Snapshot& snapshot) override;
  uint64_t bytes_synced() const override { return bytes_synced_; }

 private:
  absl::Status PrepareStatements();
  absl::Status Commit(const std::vector<AppendQueue::Work>& works);
  absl::Status Rest(bool is_idle);
  absl::Status Insert(const Batch& batch);
  absl::Status InsertRows(uint64_t event_seq, const RowBatch& batch);
  void CopyBack();
  static int OnWal(void* self, sqlite3* database, const char* name, int pages);

  const SqliteJournalOptions options_;
  const std::unique_ptr<SqliteFile> file_;
  SqliteReads reads_;
  SnapshotFiles snapshots_;

  // The writer's.
  SqliteStatement begin_, commit_, insert_event_, insert_rows_;
  std::string last_hash_;
  uint64_t last_seq_ = 0;
  uint64_t wal_pages_ = 0;
  bool copied_back_ = true;

  std::atomic<uint64_t> durable_seq_ = 0;
  std::atomic<uint64_t> bytes_synced_ = 0;
  AppendQueue queue_;  // The last: its thread uses all the others.
};

absl::Status SqliteJournal::Begin() {
  RT_RETURN_IF_ERROR(PrepareStatements());
  RT_ASSIGN_OR_RETURN(SqliteStatement last, SqliteStatement::Prepare(
      file_->writer(), "SELECT seq, hash FROM events ORDER BY seq DESC LIMIT 1"));
  RT_ASSIGN_OR_RETURN(bool found, last.Step());
  last_hash_ = found ? std::string(last.Bytes(1)) : ChainStart();
  last_seq_ = found ? last.Number(0) : 0;
  durable_seq_ = last_seq_;
  sqlite3_wal_hook(file_->writer().handle(), &SqliteJournal::OnWal, this);
  if (options_.pages_max > 0) {
    const std::string bound = "PRAGMA max_page_count=" + std::to_string(options_.pages_max);
    RT_RETURN_IF_ERROR(file_->writer().Execute(bound.c_str()));
  }
  queue_.Start();
  return absl::OkStatus();
}

absl::Status SqliteJournal::PrepareStatements() {
  const auto prepare = [&](SqliteStatement& statement, const char* sql) {
    auto prepared = SqliteStatement::Prepare(file_->writer(), sql);
    if (prepared.ok()) statement = std::move(*prepared);
    return prepared.status();
  };
  RT_RETURN_IF_ERROR(prepare(begin_, "BEGIN IMMEDIATE"));
  RT_RETURN_IF_ERROR(prepare(commit_, "COMMIT"));
  RT_RETURN_IF_ERROR(prepare(insert_event_, "INSERT INTO events VALUES(?,?,?,?,?)"));
  return prepare(insert_rows_, "INSERT INTO rows VALUES(?,?,?,?,?,?,?,?,?,?,?)");
}

absl::Status SqliteJournal::WriteSnapshot(const Snapshot& snapshot) {
  if (snapshot.seq > durable_seq_) {
    return absl::FailedPreconditionError("snapshot: its records are not durable yet");
  }
  RT_ASSIGN_OR_RETURN(std::string hash, reads_.HashAt(snapshot.seq));
  return Annotate(snapshots_.Write(snapshot, hash), "snapshot");
}

absl::Status SqliteJournal::Commit(const std::vector<AppendQueue::Work>& works) {
  RT_RETURN_IF_ERROR(begin_.Run());
  for (const auto& work : works) RT_RETURN_IF_ERROR(Insert(work.batch));
  if (options_.before_commit) RT_RETURN_IF_ERROR(options_.before_commit());
  RT_RETURN_IF_ERROR(FailAt("head.journal.before_commit"));
  RT_RETURN_IF_ERROR(commit_.Run());
  RT_RETURN_IF_ERROR(FailAt("head.journal.after_commit"));
  durable_seq_ = last_seq_;
  return absl::OkStatus();
}

absl::Status SqliteJournal::Rest(bool is_idle) {
  if (is_idle || wal_pages_ > kCheckpointPages) CopyBack();
  return absl::OkStatus();
}

absl::Status SqliteJournal::Insert(const Batch& batch) {
  RT_CHECK_BECAUSE(!batch.records.empty(), "a batch without records");
  for (const Record& record : batch.records) {
    RT_CHECK_BECAUSE(record.seq == last_seq_ + 1, "records leave a gap");
    const std::string body = EncodeRecord(record);
    std::string hash = Chain(last_hash_, body);
    insert_event_.Bind(1, record.seq).Bind(2, static_cast<uint64_t>(record.at));
    insert_event_.Bind(3, record.event.index()).Bind(4, std::string_view(body));
    insert_event_.Bind(5, std::string_view(hash));
    RT_RETURN_IF_ERROR(insert_event_.Run());
    last_seq_ = record.seq;
    last_hash_ = std::move(hash);
  }
  const std::vector<uint64_t> owners = RowOwners(batch);
  for (size_t i = 0; i < owners.size(); ++i) {
    RT_RETURN_IF_ERROR(InsertRows(owners[i], batch.rows[i]));
  }
  return absl::OkStatus();
}

absl::Status SqliteJournal::InsertRows(uint64_t event_seq, const RowBatch& batch) {
  const std::string body = EncodeRows(batch);
  const std::string hash = RowsHash(event_seq, body);
  const Owner& owner = batch.attempt.owner;
  SqliteStatement& insert = insert_rows_;
  insert.Bind(1, event_seq).Bind(2, static_cast<uint64_t>(owner.kind)).Bind(3, owner.group);
  insert.Bind(4, uint64_t{owner.number}).Bind(5, uint64_t{batch.attempt.number});
  insert.Bind(6, uint64_t{batch.attempt.generation}).Bind(7, uint64_t{batch.rank});
  insert.Bind(8, batch.rows.empty() ? 0 : batch.rows.front().seq);
  insert.Bind(9, batch.rows.empty() ? 0 : batch.rows.back().seq);
  return insert.Bind(10, std::string_view(body)).Bind(11, std::string_view(hash)).Run();
}

int SqliteJournal::OnWal(void* self, sqlite3*, const char*, int pages) {
  auto& journal = *static_cast<SqliteJournal*>(self);
  const auto now = static_cast<uint64_t>(pages);
  const uint64_t written = now >= journal.wal_pages_ ? now - journal.wal_pages_ : now;
  constexpr uint64_t kFrameHeaderBytes = 24;
  journal.bytes_synced_ += written * (kJournalPageBytes + kFrameHeaderBytes);
  journal.wal_pages_ = now;
  journal.copied_back_ = false;
  return SQLITE_OK;
}

// Best effort: readers may keep part of the log in use, and the next try finishes it.
void SqliteJournal::CopyBack() {
  if (copied_back_) return;
  SqliteDatabase& writer = file_->writer();
  const int code = sqlite3_wal_checkpoint_v2(writer.handle(), nullptr, SQLITE_CHECKPOINT_PASSIVE,
                                             nullptr, nullptr);
  copied_back_ = true;
  if (code != SQLITE_OK && code != SQLITE_BUSY) {
    RT_LOG(kWarning) << "journal: " << writer.Error(code, "checkpoint").message();
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Journal>> OpenSqliteJournal(const std::string& path,
                                                           SqliteJournalOptions options) {
  auto file = SqliteFile::Open(path, options.version, options.is_draft);
  if (!file.ok()) return Annotate(file.status(), "journal " + path);
  auto journal = std::make_unique<SqliteJournal>(*std::move(file), std::move(options));
  RT_RETURN_IF_ERROR(Annotate(journal->Begin(), "journal " + path));
  return journal;
}

}  // namespace rt
