// The journal in one SQLite file: WAL, synchronous=FULL, group commit on a writer thread of its
// own, readers on connections of their own. A lock file beside it keeps a second head away. Every
// record is chained to the one before by SHA-256, since SQLite does not checksum its pages.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "head/journal/journal.h"

namespace rt {

struct SqliteJournalOptions {
  std::string version = RT_VERSION;  // Written into the header.
  uint64_t pages_max = 0;            // Of 8 KiB; then the disk counts as full. 0: no bound.
  // Empty, and nothing in it is durable: for JournalDraft, which makes a journal of it.
  bool is_draft = false;
  // Called by the writer thread before each commit; tests fail or delay it (a slow disk).
  std::function<absl::Status()> before_commit;
};

// Creates the file when it is not there. Errors: another process holds it (Unavailable), it was
// written in a format that this version does not read (FailedPrecondition, naming the writer), it
// lies on a network file system (FailedPrecondition), it is damaged (DataLoss).
absl::StatusOr<std::unique_ptr<Journal>> OpenSqliteJournal(const std::string& path,
                                                           SqliteJournalOptions options = {});

}  // namespace rt
