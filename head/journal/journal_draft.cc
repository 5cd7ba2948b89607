#include "head/journal/journal_draft.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "common/base/status.h"
#include "common/run/files.h"
#include "head/journal/sqlite_file.h"
#include "head/journal/sqlite_journal.h"

namespace rt {
namespace {

std::string DraftOf(const std::string& path) { return path + ".draft"; }

absl::Status SyncFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "open " + path);
  absl::Status status;
  if (::fsync(fd) != 0) status = ErrnoStatus(errno, "fsync " + path);
  ::close(fd);
  return status;
}

}  // namespace

bool JournalDraft::IsBegun(const std::string& path) { return Exists(DraftOf(path)); }

absl::StatusOr<JournalDraft> JournalDraft::Begin(const std::string& path) {
  JournalDraft draft(path);
  RT_ASSIGN_OR_RETURN(draft.journal_, OpenSqliteJournal(DraftOf(path), {.is_draft = true}));
  return draft;
}

absl::Status JournalDraft::Seal() {
  journal_.reset();
  const std::string draft = DraftOf(path_);
  RT_RETURN_IF_ERROR(SqliteFile::FinishDraft(draft));
  RT_RETURN_IF_ERROR(SyncFile(draft));
  if (::rename(draft.c_str(), path_.c_str()) != 0) return ErrnoStatus(errno, "rename " + draft);
  ::unlink((draft + ".lock").c_str());
  return SyncDirectory(std::filesystem::path(path_).parent_path().string());
}

}  // namespace rt
