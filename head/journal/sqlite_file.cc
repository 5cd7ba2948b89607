#include "head/journal/sqlite_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/status.h"
#include "common/run/files.h"

namespace rt {
namespace {

// The format of this file; a reader of an older format refuses when `oldest_reader` is beyond it.
constexpr uint64_t kFormat = 1;
constexpr uint64_t kOldestReader = 1;
constexpr long kNfsMagic = 0x6969;

constexpr char kPragmas[] =
    "PRAGMA busy_timeout=0; PRAGMA foreign_keys=ON; PRAGMA cell_size_check=ON;"
    "PRAGMA mmap_size=0; PRAGMA trusted_schema=OFF;";
constexpr char kWriterPragmas[] =
    "PRAGMA page_size=8192; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
    "PRAGMA locking_mode=NORMAL; PRAGMA wal_autocheckpoint=0;";
constexpr char kDraftPragmas[] =
    "PRAGMA page_size=8192; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;";
static_assert(kJournalPageBytes == 8'192);
constexpr char kSchema[] =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
    "CREATE TABLE events(seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, type INTEGER NOT NULL,"
    " body BLOB NOT NULL, hash BLOB NOT NULL);"
    "CREATE TABLE rows(event_seq INTEGER PRIMARY KEY, kind INTEGER NOT NULL,"
    " grp INTEGER NOT NULL, number INTEGER NOT NULL, attempt INTEGER NOT NULL,"
    " generation INTEGER NOT NULL, rank INTEGER NOT NULL, seq_from INTEGER NOT NULL,"
    " seq_to INTEGER NOT NULL, body BLOB NOT NULL, hash BLOB NOT NULL);";
constexpr char kIndex[] =
    "CREATE INDEX rows_by_owner ON rows(kind, grp, number, attempt, generation, rank, event_seq);";

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteFile>> SqliteFile::Open(const std::string& path,
                                                             const std::string& version,
                                                             bool is_draft) {
  std::unique_ptr<SqliteFile> file(new SqliteFile(path));
  RT_RETURN_IF_ERROR(file->Lock());
  if (is_draft && unlink(path.c_str()) != 0 && errno != ENOENT)
    return ErrnoStatus(errno, "remove the old draft");
  RT_ASSIGN_OR_RETURN(file->writer_, SqliteDatabase::Open(path, false));
  RT_RETURN_IF_ERROR(file->writer_->Execute(kPragmas));
  RT_RETURN_IF_ERROR(file->writer_->Execute(is_draft ? kDraftPragmas : kWriterPragmas));
  RT_RETURN_IF_ERROR(file->CheckHeader(version, is_draft));
  return file;
}

absl::Status SqliteFile::FinishDraft(const std::string& path) {
  RT_ASSIGN_OR_RETURN(auto database, SqliteDatabase::Open(path, false));
  RT_RETURN_IF_ERROR(database->Execute(kPragmas));
  RT_RETURN_IF_ERROR(database->Execute(kDraftPragmas));
  return database->Execute(kIndex);
}

SqliteFile::~SqliteFile() {
  writer_.reset();
  if (lock_fd_ >= 0) close(lock_fd_);
}

absl::StatusOr<std::unique_ptr<SqliteDatabase>> SqliteFile::OpenReader() const {
  RT_ASSIGN_OR_RETURN(auto database, SqliteDatabase::Open(path_, true));
  RT_RETURN_IF_ERROR(database->Execute(kPragmas));
  return database;
}

absl::Status SqliteFile::Lock() {
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

absl::Status SqliteFile::CheckHeader(const std::string& version, bool is_draft) {
  RT_ASSIGN_OR_RETURN(SqliteStatement table, SqliteStatement::Prepare(
      *writer_, "SELECT 1 FROM sqlite_schema WHERE name='meta'"));
  RT_ASSIGN_OR_RETURN(bool found, table.Step());
  table.Reset();
  if (!found) return CreateTables(version, is_draft);
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
  if (writer_version_ == version) return absl::OkStatus();
  writer_version_ = version;
  RT_ASSIGN_OR_RETURN(SqliteStatement update, SqliteStatement::Prepare(
      *writer_, "UPDATE meta SET value=? WHERE key='writer'"));
  return update.Bind(1, std::string_view(writer_version_)).Run();
}

absl::Status SqliteFile::CreateTables(const std::string& version, bool is_draft) {
  writer_version_ = version;
  RT_RETURN_IF_ERROR(writer_->Execute(kSchema));
  if (!is_draft) RT_RETURN_IF_ERROR(writer_->Execute(kIndex));
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

}  // namespace rt
