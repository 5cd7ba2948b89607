// A journal that is made whole before anybody may open it: what --restore-from fills. Until then it
// lies under another name, without a write-ahead log, syncs and index, which would be most of the
// bytes written: a crash costs the work, and never leaves a part that looks like the whole.
#pragma once

#include <memory>
#include <string>

#include "head/journal/journal.h"

namespace rt {

class JournalDraft {
 public:
  // Of the journal that is to lie at `path`, empty. A draft that was given up there is dropped.
  // Unavailable when another process is at one.
  static absl::StatusOr<JournalDraft> Begin(const std::string& path);
  // Whether one was begun at `path`, and not sealed.
  static bool IsBegun(const std::string& path);

  Journal& journal() { return *journal_; }
  // Closes the draft, brings it to the disk and gives it its name. Once, and the last call.
  absl::Status Seal();

 private:
  explicit JournalDraft(std::string path) : path_(std::move(path)) {}
  std::string path_;
  std::unique_ptr<Journal> journal_;
};

}  // namespace rt
