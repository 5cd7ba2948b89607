// The outputs of an attempt: its working directory and its trial directory compared with the bundle
// that it began with. A file of the bundle is unchanged when its size, mode and time are as
// MakeWorkDir left them, or when its bytes are the same. Caches are left out without a word:
// __pycache__, .git and the like, and directories that say so themselves (CACHEDIR.TAG); so are
// files that a checkpoint has. Links are never followed. Any thread; reads only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/limits.h"
#include "common/base/time.h"
#include "worker/session/reported_files.h"

namespace rt::worker {

// What a working directory began as.
struct Baseline {
  std::string tree;  // The unpacked bundle; empty: the directory was empty.
  Millis since = 0;  // When the copy was complete.
};

struct WrittenBounds {
  Bytes bytes = limits::kOutputBytesMax;
  size_t files = limits::kOutputFilesMax;
};
struct NotKept {
  std::string path;  // Below the root; escaped where it is no UTF-8.
  Bytes bytes = 0;
  std::string reason;
};
struct Written {
  // Files, links and empty directories to keep, below the root ("work/a", "rank-1/trial/b"), with
  // their sizes.
  std::map<std::string, Bytes> paths;
  uint64_t files = 0;  // Without the directories.
  Bytes bytes = 0;
  std::vector<NotKept> left_out;  // The largest first.
  Bytes left_out_bytes = 0;

  bool empty() const { return paths.empty() && left_out.empty(); }
  void LeaveOut(const std::string& path, Bytes size, std::string reason);
  void SortLeftOut();
};

// Whether `directory` may hold something that the baseline does not. Looks at names, sizes and
// times only, no further than the first that is new, and at no more than a thousand entries: true
// when those do not suffice.
bool MayHaveWritten(const std::string& directory, const Baseline& base);

// One directory below `root`.
struct WrittenPlace {
  std::string path;
  Baseline base;
};
// What is new in all of the places together, without what `reported` has. Beyond the bounds the
// larger files are left out.
Written FindWritten(const std::string& root, const std::vector<WrittenPlace>& places,
                    const WrittenBounds& bounds, ReportedFiles* reported = nullptr);

}  // namespace rt::worker
