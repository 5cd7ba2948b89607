// Looks for the patterns of an experiment's retry rules at the end of a failed program's log.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rt::worker {

// The places of those patterns (common/base/pattern.h) that are found in a line of the last 64 KiB
// of standard output or standard error, whose segments lie in `directory`. Of a line its first
// 4 KiB are looked at, and all of it for limits::kPatternsAtEnd. A pattern that this release
// refuses is found nowhere, and named in the log.
std::vector<uint32_t> FindPatterns(const std::string& directory,
                                   const std::vector<std::string>& patterns);

}  // namespace rt::worker
