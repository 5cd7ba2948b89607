// Files that a trial reported as checkpoints and left where they were: its outputs do not repeat
// them. The newest committed checkpoint of each reported path leaves a note with its manifest,
//   <run directory>/saved/reported/<digest of the path>
// and a file is left out of the outputs while it has the bytes that the manifest names. Any thread.
#pragma once

#include <sys/stat.h>

#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "common/cas/manifest.h"
#include "worker/launch/launch_body.h"
#include "worker/session/spool.h"

namespace rt::worker {

// What outputs call a directory of a rank's run directory: "work", "rank-2/work".
std::string OutputPlace(uint32_t rank, const std::string& name);
// What they call a path of the file system: "trial/epoch-3"; "" when it lies neither in work() nor
// in trial(), or is one of them. Follows links.
std::string OutputPathOf(const RunDir& dir, uint32_t rank, const std::string& path);

// `path` as OutputPathOf has it; without one or a manifest there is nothing to note. `is_whole`:
// else it is a rank's part of a checkpoint that the head does not call complete yet.
absl::Status NoteReported(const RunDir& dir, const std::string& path, const SpoolRow& row,
                          bool is_whole, const std::string& manifest_text);

class ReportedFiles {
 public:
  // `notes`: where they are now. Parts of later rows than `whole_seq` are none.
  ReportedFiles(std::string notes, uint64_t whole_seq);
  // Whether the newest checkpoint of a reported path has the file, link or empty directory `file`
  // as it is. `path`: as outputs call it. Reads it when its size is the same.
  bool Has(const std::string& path, const std::string& file, const struct stat& info);

 private:
  struct Note {
    Bytes chunk_bytes = 0;
    std::map<std::string, ManifestEntry> entries;
  };
  const Note* NoteOf(const std::string& path);

  const std::string notes_;
  const uint64_t whole_seq_;
  std::set<std::string> names_;
  std::string read_;          // The path whose note `note_` is.
  std::optional<Note> note_;  // One at a time: those of large checkpoints are large.
};

}  // namespace rt::worker
