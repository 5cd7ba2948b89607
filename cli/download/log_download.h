// What a trial or a job printed, all of its attempts one after another, as files of this machine.
// Blocks; any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/client/head_client.h"
#include "cli/download/download_log.h"
#include "common/base/ids.h"

namespace rt {

struct LogDownload {
  Bytes bytes = 0;
  size_t files = 0;
  std::vector<std::string> gone;  // "attempt 2: ...": what no node has any more.
};
// Writes <directory>/stdout and stderr, and stdout.rank1 and so on of other ranks, those that are
// not empty. `attempts`: as `trial show` and `job show` list them. `directory` is relative to
// that of the log, and is there.
absl::StatusOr<LogDownload> DownloadLogs(HeadClient& client, const Owner& owner,
                                         const Json& attempts, DownloadLog& log,
                                         const std::string& directory);

}  // namespace rt
