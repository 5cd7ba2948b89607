// Where a program of a bundle begins.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "worker/launch/launch_body.h"

namespace rt::worker {

// Makes `work` a fresh copy of the unpacked bundle (`tree`; "": of nothing), with the times of its
// files, and returns the working directory: the one below it that the body names, or an absolute
// one when there is no bundle.
absl::StatusOr<std::string> MakeWorkDir(const LaunchBody& body, const std::string& tree,
                                        const std::string& work);

}  // namespace rt::worker
