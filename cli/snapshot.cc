#include "cli/snapshot.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/bring_home.h"
#include "cli/render/spans.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/clock.h"

namespace rt {
namespace {

constexpr Millis kQuietFor = 2'000;  // What takes longer shows how far it is.
constexpr Millis kShowEvery = 200;

// A progress line on a terminal; it is erased at the end.
class PushProgress {
 public:
  explicit PushProgress(Bytes total) : total_(total), is_terminal_(isatty(2) == 1) {}
  ~PushProgress() {
    if (shown_at_ != 0) std::fputs("\r\x1b[K", stderr);
  }
  PushProgress(const PushProgress&) = delete;
  PushProgress& operator=(const PushProgress&) = delete;

  void Show(Bytes so_far) {
    const Millis now = SteadyClock();
    if (!is_terminal_ || now - began_at_ < kQuietFor || now - shown_at_ < kShowEvery) return;
    shown_at_ = now;
    std::fprintf(stderr, "\r\x1b[Krt: snapshot: %s of %s", BytesText(so_far).c_str(),
                 BytesText(std::max(total_, so_far)).c_str());
  }

 private:
  const Bytes total_;
  const bool is_terminal_;
  const Millis began_at_ = SteadyClock();
  Millis shown_at_ = 0;
};

std::string LargestText(const TreeSize& size) {
  const auto largest =
      std::max_element(size.entries.begin(), size.entries.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (largest == size.entries.end()) return "";
  return "the largest: " + largest->first + " " + BytesText(largest->second) +
         "; add it to .rtignore to leave it out";
}

}  // namespace

std::vector<std::string> LeftOutLines(const std::map<std::string, std::string>& left_out) {
  std::vector<std::string> lines;
  for (const auto& [path, reason] : left_out) {
    lines.push_back("left out " + path + ": " + reason);
    if (path.ends_with('/')) lines.back() += " ('!" + path + "' in .rtignore takes it along)";
  }
  return lines;
}

std::string LargeSnapshotText(const TreeSize& size) {
  if (size.bytes < limits::kBundleNoticeBytes) return "";
  return "snapshot: " + BytesText(size.bytes) + " in " + Counted(size.files, "file", "files") +
         "; " + LargestText(size);
}

absl::StatusOr<StoredTree> StoreSnapshot(BlobStore& store, const std::string& directory,
                                         std::vector<std::string> exclude) {
  TreeOptions options{.honour_ignore_files = true, .exclude = std::move(exclude)};
  RT_ASSIGN_OR_RETURN(const TreeSize size, MeasureTree(directory, options));
  if (absl::Status fits = CheckBundleSize(size.files, size.bytes); !fits.ok())
    return WithHint(fits, LargestText(size));
  if (const std::string text = LargeSnapshotText(size); !text.empty()) SayLines("", {text});
  PushProgress progress(size.bytes);
  options.on_progress = [&](Bytes so_far) { progress.Show(so_far); };
  RT_ASSIGN_OR_RETURN(StoredTree tree, StoreTree(store, directory, options));
  SayLines("", LeftOutLines(tree.left_out));
  return tree;
}

}  // namespace rt
