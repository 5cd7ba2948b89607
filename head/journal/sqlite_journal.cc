#include "head/journal/sqlite_journal.h"

#include <fcntl.h>
#include <openssl/sha.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <future>
#include <mutex>
#include <thread>

#include "common/base/log.h"
#include "common/base/status.h"
#include "head/journal/codec.h"
#include "head/journal/row_owners.h"
#include "head/journal/sqlite_database.h"

namespace rt {
namespace {

// The format of this file; a reader of an older format refuses when `oldest_reader` is beyond it.
constexpr uint64_t kFormat = 1;
constexpr uint64_t kOldestReader = 1;
constexpr uint64_t kPageBytes = 8'192;
// The write-ahead log is copied back when it is this long, or when nothing is to be written.
constexpr uint64_t kCheckpointPages = (64u << 20) / kPageBytes;
constexpr std::chrono::milliseconds kIdle{1'000};
// Batches in one transaction; the loop has few in flight anyway.
constexpr size_t kBatchesPerCommitMax = 16;
constexpr size_t kSnapshotsKept = 2;
constexpr long kNfsMagic = 0x6969;

constexpr char kPragmas[] =
    "PRAGMA busy_timeout=0; PRAGMA foreign_keys=ON; PRAGMA cell_size_check=ON;"
    "PRAGMA mmap_size=0; PRAGMA trusted_schema=OFF;";
constexpr char kWriterPragmas[] =
    "PRAGMA page_size=8192; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
    "PRAGMA locking_mode=NORMAL; PRAGMA wal_autocheckpoint=0;";
constexpr char kSchema[] =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
    "CREATE TABLE events(seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, type INTEGER NOT NULL,"
    " body BLOB NOT NULL, hash BLOB NOT NULL);"
    "CREATE TABLE rows(event_seq INTEGER PRIMARY KEY, kind INTEGER NOT NULL,"
    " grp INTEGER NOT NULL, number INTEGER NOT NULL, attempt INTEGER NOT NULL,"
    " generation INTEGER NOT NULL, rank INTEGER NOT NULL, seq_from INTEGER NOT NULL,"
    " seq_to INTEGER NOT NULL, body BLOB NOT NULL, hash BLOB NOT NULL);"
    "CREATE INDEX rows_by_owner ON rows(kind, grp, number, attempt, generation, rank, event_seq);"
    "CREATE TABLE snapshots(seq INTEGER PRIMARY KEY, state BLOB NOT NULL, hash BLOB NOT NULL);";

// SHA-256 of `before` followed by `body`.
std::string Chain(std::string_view before, std::string_view body) {
  const std::string joined = std::string(before).append(body);
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(joined.data()), joined.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}
std::string ChainStart() { return std::string(SHA256_DIGEST_LENGTH, '\0'); }
std::string RowsHash(uint64_t event_seq, std::string_view body) {
  return Chain("rows " + std::to_string(event_seq) + ":", body);
}
std::string SnapshotHash(uint64_t seq, std::string_view body) {
  return Chain("snapshot " + std::to_string(seq) + ":", body);
}
// Of a row (event_seq, body, hash).
absl::StatusOr<RowBatch> CheckedRows(const SqliteStatement& rows) {
  if (RowsHash(rows.Number(0), rows.Bytes(1)) == rows.Bytes(2)) return DecodeRows(rows.Bytes(1));
  return absl::DataLossError("rows of record " + std::to_string(rows.Number(0)) + ": damaged");
}

using Visit = std::function<absl::Status(const Record&)>;

absl::Status SyncDirectory(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "open " + path);
  const int result = fsync(fd);
  const int error = errno;
  close(fd);
  return result == 0 ? absl::OkStatus() : ErrnoStatus(error, "fsync " + path);
}

class SqliteJournal final : public Journal {
 public:
  SqliteJournal(std::string path, SqliteJournalOptions options)
      : path_(std::move(path)), options_(std::move(options)) {}
  ~SqliteJournal() override;
  absl::Status Open();

  void Append(Batch batch, Done done) override;
  uint64_t durable_seq() const override { return durable_seq_; }
  absl::Status Read(uint64_t after_seq, const Visit& visit) override;
  absl::StatusOr<Batch> ReadBatch(uint64_t after_seq, size_t records_max) override;
  absl::StatusOr<std::vector<StoredRows>> ReadRows(const Owner& owner,
                                                   uint64_t after_event_seq) override;
  absl::StatusOr<std::optional<Snapshot>> LatestSnapshot() override;
  absl::Status WriteSnapshot(const Snapshot& snapshot) override;
  uint64_t bytes_synced() const override { return bytes_synced_; }

 private:
  struct Work {  // A batch, or a snapshot.
    Batch batch;
    const Snapshot* snapshot = nullptr;
    Done done;
  };
  // A connection for reading, given back when the lease ends.
  class Reader {
   public:
    Reader(SqliteJournal& journal, std::unique_ptr<SqliteDatabase> database)
        : journal_(&journal), database_(std::move(database)) {}
    Reader(Reader&&) = default;
    ~Reader();
    SqliteDatabase& operator*() { return *database_; }

   private:
    SqliteJournal* journal_;
    std::unique_ptr<SqliteDatabase> database_;
  };

  absl::Status Lock();
  absl::Status CheckHeader();
  absl::Status CreateTables();
  absl::Status PrepareStatements();
  absl::StatusOr<Reader> Lease();
  absl::Status VisitEvents(SqliteDatabase& database, uint64_t after_seq, uint64_t limit,
                           const Visit& visit);

  void WriterThread();
  absl::Status Commit(const std::vector<Work>& works);
  absl::Status Insert(const Batch& batch);
  absl::Status InsertRows(uint64_t event_seq, const RowBatch& batch);
  absl::Status InsertSnapshot(const Snapshot& snapshot);
  void CopyBack();
  static int OnWal(void* self, sqlite3* database, const char* name, int pages);

  const std::string path_;
  const SqliteJournalOptions options_;
  int lock_fd_ = -1;
  std::string writer_version_;  // Of the file.

  // The writer's.
  std::unique_ptr<SqliteDatabase> writer_;
  SqliteStatement begin_, commit_, insert_event_, insert_rows_, insert_snapshot_, drop_snapshots_;
  std::string last_hash_;
  uint64_t last_seq_ = 0;
  uint64_t wal_pages_ = 0;
  bool copied_back_ = true;
  absl::Status failure_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  bool stopping_ = false;
  std::mutex readers_mutex_;
  std::vector<std::unique_ptr<SqliteDatabase>> readers_;
  std::atomic<uint64_t> durable_seq_ = 0;
  std::atomic<uint64_t> bytes_synced_ = 0;
  std::thread thread_;
};

SqliteJournal::~SqliteJournal() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (lock_fd_ >= 0) close(lock_fd_);
}

absl::Status SqliteJournal::Open() {
  RT_RETURN_IF_ERROR(Lock());
  RT_ASSIGN_OR_RETURN(writer_, SqliteDatabase::Open(path_, false));
  RT_RETURN_IF_ERROR(writer_->Execute(kPragmas));
  RT_RETURN_IF_ERROR(writer_->Execute(kWriterPragmas));
  RT_RETURN_IF_ERROR(CheckHeader());
  RT_RETURN_IF_ERROR(PrepareStatements());
  RT_ASSIGN_OR_RETURN(SqliteStatement last, SqliteStatement::Prepare(
      *writer_, "SELECT seq, hash FROM events ORDER BY seq DESC LIMIT 1"));
  RT_ASSIGN_OR_RETURN(bool found, last.Step());
  last_hash_ = found ? std::string(last.Bytes(1)) : ChainStart();
  last_seq_ = found ? last.Number(0) : 0;
  durable_seq_ = last_seq_;
  sqlite3_wal_hook(writer_->handle(), &SqliteJournal::OnWal, this);
  thread_ = std::thread([this] { WriterThread(); });
  return absl::OkStatus();
}

absl::Status SqliteJournal::Lock() {
  lock_fd_ = open((path_ + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_fd_ < 0) return ErrnoStatus(errno, "open its lock file");
  struct statfs where;
  if (fstatfs(lock_fd_, &where) == 0 && where.f_type == kNfsMagic) {
    return absl::FailedPreconditionError("the state directory lies on NFS, which loses locks");
  }
  if (flock(lock_fd_, LOCK_EX | LOCK_NB) != 0) {
    return absl::UnavailableError("another process holds it");
  }
  return absl::OkStatus();
}

absl::Status SqliteJournal::CheckHeader() {
  RT_ASSIGN_OR_RETURN(SqliteStatement table, SqliteStatement::Prepare(
      *writer_, "SELECT 1 FROM sqlite_schema WHERE name='meta'"));
  RT_ASSIGN_OR_RETURN(bool found, table.Step());
  table.Reset();
  if (!found) return CreateTables();
  RT_ASSIGN_OR_RETURN(SqliteStatement meta, SqliteStatement::Prepare(
      *writer_, "SELECT (SELECT value FROM meta WHERE key='format'),"
                "(SELECT value FROM meta WHERE key='oldest_reader'),"
                "(SELECT value FROM meta WHERE key='writer')"));
  RT_RETURN_IF_ERROR(meta.Step().status());
  writer_version_ = std::string(meta.Bytes(2));
  if (meta.Number(0) == 0) return absl::DataLossError("its header names no format");
  if (meta.Number(1) > kFormat) {
    return WithHint(absl::FailedPreconditionError(
        "it was written by rt " + writer_version_ + " in format " +
        std::to_string(meta.Number(0)) + "; rt " RT_VERSION " reads formats up to " +
        std::to_string(kFormat)), "start rt-head " + writer_version_ + " or newer");
  }
  meta.Reset();
  if (writer_version_ == options_.version) return absl::OkStatus();
  writer_version_ = options_.version;
  RT_ASSIGN_OR_RETURN(SqliteStatement update, SqliteStatement::Prepare(
      *writer_, "UPDATE meta SET value=? WHERE key='writer'"));
  return update.Bind(1, std::string_view(writer_version_)).Run();
}

absl::Status SqliteJournal::CreateTables() {
  writer_version_ = options_.version;
  RT_RETURN_IF_ERROR(writer_->Execute(kSchema));
  RT_ASSIGN_OR_RETURN(SqliteStatement insert, SqliteStatement::Prepare(
      *writer_, "INSERT INTO meta(key, value) VALUES('format', ?),('oldest_reader', ?),"
                "('writer', ?)"));
  insert.Bind(1, kFormat).Bind(2, kOldestReader).Bind(3, std::string_view(writer_version_));
  RT_RETURN_IF_ERROR(insert.Run());
  RT_RETURN_IF_ERROR(writer_->Execute("COMMIT"));
  chmod(path_.c_str(), 0600);
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  return SyncDirectory(folder.empty() ? "." : folder);
}

absl::Status SqliteJournal::PrepareStatements() {
  const auto prepare = [&](SqliteStatement& statement, const char* sql) {
    auto prepared = SqliteStatement::Prepare(*writer_, sql);
    if (prepared.ok()) statement = std::move(*prepared);
    return prepared.status();
  };
  RT_RETURN_IF_ERROR(prepare(begin_, "BEGIN IMMEDIATE"));
  RT_RETURN_IF_ERROR(prepare(commit_, "COMMIT"));
  RT_RETURN_IF_ERROR(prepare(insert_event_, "INSERT INTO events VALUES(?,?,?,?,?)"));
  RT_RETURN_IF_ERROR(prepare(insert_rows_, "INSERT INTO rows VALUES(?,?,?,?,?,?,?,?,?,?,?)"));
  RT_RETURN_IF_ERROR(prepare(insert_snapshot_, "INSERT OR REPLACE INTO snapshots VALUES(?,?,?)"));
  return prepare(drop_snapshots_,
                 "DELETE FROM snapshots WHERE seq NOT IN"
                 " (SELECT seq FROM snapshots ORDER BY seq DESC LIMIT ?)");
}

void SqliteJournal::Append(Batch batch, Done done) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back({.batch = std::move(batch), .done = std::move(done)});
  }
  changed_.notify_one();
}

absl::Status SqliteJournal::WriteSnapshot(const Snapshot& snapshot) {
  if (snapshot.seq > durable_seq_) {
    return absl::FailedPreconditionError("snapshot: its records are not durable yet");
  }
  std::promise<absl::Status> written;
  {
    std::lock_guard lock(mutex_);
    queue_.push_back({.snapshot = &snapshot,
                      .done = [&](absl::Status status) { written.set_value(std::move(status)); }});
  }
  changed_.notify_one();
  return written.get_future().get();
}

void SqliteJournal::WriterThread() {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto ready = [this] { return stopping_ || !queue_.empty(); };
    if (!changed_.wait_for(lock, kIdle, ready)) {
      lock.unlock();
      CopyBack();
      lock.lock();
      continue;
    }
    if (queue_.empty()) return;  // Stopping.
    std::vector<Work> works;
    while (!queue_.empty() && works.size() < kBatchesPerCommitMax) {
      works.push_back(std::move(queue_.front()));
      queue_.pop_front();
    }
    lock.unlock();
    // After a failure nothing is written any more: memory is ahead of the disk.
    if (failure_.ok()) failure_ = Commit(works);
    if (failure_.ok()) durable_seq_ = last_seq_;
    for (Work& work : works) work.done(failure_);
    if (wal_pages_ > kCheckpointPages) CopyBack();
    lock.lock();
  }
}

absl::Status SqliteJournal::Commit(const std::vector<Work>& works) {
  RT_RETURN_IF_ERROR(begin_.Run());
  for (const Work& work : works) {
    RT_RETURN_IF_ERROR(work.snapshot ? InsertSnapshot(*work.snapshot) : Insert(work.batch));
  }
  if (options_.before_commit) RT_RETURN_IF_ERROR(options_.before_commit());
  return commit_.Run();
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

absl::Status SqliteJournal::InsertSnapshot(const Snapshot& snapshot) {
  const std::string hash = SnapshotHash(snapshot.seq, snapshot.state);
  insert_snapshot_.Bind(1, snapshot.seq).Bind(2, std::string_view(snapshot.state));
  RT_RETURN_IF_ERROR(insert_snapshot_.Bind(3, std::string_view(hash)).Run());
  return drop_snapshots_.Bind(1, uint64_t{kSnapshotsKept}).Run();
}

int SqliteJournal::OnWal(void* self, sqlite3*, const char*, int pages) {
  auto& journal = *static_cast<SqliteJournal*>(self);
  const auto now = static_cast<uint64_t>(pages);
  const uint64_t written = now >= journal.wal_pages_ ? now - journal.wal_pages_ : now;
  constexpr uint64_t kFrameHeaderBytes = 24;
  journal.bytes_synced_ += written * (kPageBytes + kFrameHeaderBytes);
  journal.wal_pages_ = now;
  journal.copied_back_ = false;
  return SQLITE_OK;
}

// Best effort: readers may keep part of the log in use, and the next try finishes it.
void SqliteJournal::CopyBack() {
  if (copied_back_ || !failure_.ok()) return;
  const int code = sqlite3_wal_checkpoint_v2(writer_->handle(), nullptr, SQLITE_CHECKPOINT_PASSIVE,
                                             nullptr, nullptr);
  copied_back_ = true;
  if (code != SQLITE_OK && code != SQLITE_BUSY) {
    RT_LOG(kWarning) << "journal: " << writer_->Error(code, "checkpoint").message();
  }
}

SqliteJournal::Reader::~Reader() {
  if (database_ == nullptr) return;
  std::lock_guard lock(journal_->readers_mutex_);
  journal_->readers_.push_back(std::move(database_));
}

absl::StatusOr<SqliteJournal::Reader> SqliteJournal::Lease() {
  {
    std::lock_guard lock(readers_mutex_);
    if (!readers_.empty()) {
      Reader reader(*this, std::move(readers_.back()));
      readers_.pop_back();
      return reader;
    }
  }
  RT_ASSIGN_OR_RETURN(auto database, SqliteDatabase::Open(path_, true));
  RT_RETURN_IF_ERROR(database->Execute(kPragmas));
  return Reader(*this, std::move(database));
}

absl::Status SqliteJournal::VisitEvents(SqliteDatabase& database, uint64_t after_seq,
                                        uint64_t limit, const Visit& visit) {
  RT_ASSIGN_OR_RETURN(SqliteStatement events, SqliteStatement::Prepare(
      database, "SELECT seq, body, hash FROM events WHERE seq>=? ORDER BY seq LIMIT ?"));
  // The record before gives the hash that the first one is chained to.
  events.Bind(1, after_seq).Bind(2, limit + (after_seq > 0 ? 1 : 0));
  std::string hash = ChainStart();
  for (uint64_t expected = after_seq > 0 ? after_seq : 1;; ++expected) {
    RT_ASSIGN_OR_RETURN(bool found, events.Step());
    if (!found) return absl::OkStatus();
    const std::string at = "record " + std::to_string(expected);
    if (events.Number(0) != expected) return absl::DataLossError(at + " is missing");
    if (expected == after_seq) {
      hash = std::string(events.Bytes(2));
      continue;
    }
    hash = Chain(hash, events.Bytes(1));
    if (hash != events.Bytes(2)) return absl::DataLossError(at + ": the hash chain is broken");
    absl::StatusOr<Record> record = DecodeRecord(events.Bytes(1));
    if (!record.ok()) {
      return Annotate(record.status(), path_ + ", written by rt " + writer_version_);
    }
    if (record->seq != expected) return absl::DataLossError(at + " carries another number");
    RT_RETURN_IF_ERROR(visit(*record));
  }
}

absl::Status SqliteJournal::Read(uint64_t after_seq, const Visit& visit) {
  RT_ASSIGN_OR_RETURN(Reader reader, Lease());
  return VisitEvents(*reader, after_seq, INT64_MAX - 1, visit);
}

absl::StatusOr<Batch> SqliteJournal::ReadBatch(uint64_t after_seq, size_t records_max) {
  Batch batch;
  if (durable_seq_ <= after_seq) return batch;
  RT_ASSIGN_OR_RETURN(Reader reader, Lease());
  RT_RETURN_IF_ERROR(VisitEvents(*reader, after_seq, records_max, [&](const Record& record) {
    batch.records.push_back(record);
    return absl::OkStatus();
  }));
  if (batch.records.empty()) return batch;
  RT_ASSIGN_OR_RETURN(SqliteStatement rows, SqliteStatement::Prepare(
      *reader, "SELECT event_seq, body, hash FROM rows WHERE event_seq>? AND event_seq<=?"
               " ORDER BY event_seq"));
  rows.Bind(1, after_seq).Bind(2, batch.records.back().seq);
  while (true) {
    RT_ASSIGN_OR_RETURN(bool found, rows.Step());
    if (!found) return batch;
    RT_ASSIGN_OR_RETURN(RowBatch decoded, CheckedRows(rows));
    batch.rows.push_back(std::move(decoded));
  }
}

absl::StatusOr<std::vector<StoredRows>> SqliteJournal::ReadRows(const Owner& owner,
                                                                uint64_t after_event_seq) {
  RT_ASSIGN_OR_RETURN(Reader reader, Lease());
  RT_ASSIGN_OR_RETURN(SqliteStatement rows, SqliteStatement::Prepare(
      *reader, "SELECT event_seq, body, hash FROM rows WHERE kind=? AND grp=? AND number=?"
               " AND event_seq>? ORDER BY attempt, generation, rank, event_seq"));
  rows.Bind(1, static_cast<uint64_t>(owner.kind)).Bind(2, owner.group);
  rows.Bind(3, uint64_t{owner.number}).Bind(4, after_event_seq);
  std::vector<StoredRows> stored;
  while (true) {
    RT_ASSIGN_OR_RETURN(bool found, rows.Step());
    if (!found) return stored;
    RT_ASSIGN_OR_RETURN(RowBatch decoded, CheckedRows(rows));
    stored.push_back({rows.Number(0), std::move(decoded)});
  }
}

absl::StatusOr<std::optional<Snapshot>> SqliteJournal::LatestSnapshot() {
  RT_ASSIGN_OR_RETURN(Reader reader, Lease());
  RT_ASSIGN_OR_RETURN(SqliteStatement rows, SqliteStatement::Prepare(
      *reader, "SELECT seq, state, hash FROM snapshots ORDER BY seq DESC"));
  while (true) {
    RT_ASSIGN_OR_RETURN(bool found, rows.Step());
    if (!found) return std::nullopt;
    if (SnapshotHash(rows.Number(0), rows.Bytes(1)) == rows.Bytes(2)) {
      return Snapshot{rows.Number(0), std::string(rows.Bytes(1))};
    }
    RT_LOG(kWarning) << "journal: the snapshot at " << rows.Number(0)
                     << " is damaged; an older one or the whole log is read instead";
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Journal>> OpenSqliteJournal(const std::string& path,
                                                           SqliteJournalOptions options) {
  auto journal = std::make_unique<SqliteJournal>(path, std::move(options));
  RT_RETURN_IF_ERROR(Annotate(journal->Open(), "journal " + path));
  return journal;
}

}  // namespace rt
