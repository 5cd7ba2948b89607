// A checkpoint, or what a trial wrote, from the head's store into a directory of this machine.
// Blocks; any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/time.h"
#include "common/cas/blob_store.h"

namespace rt {

// Restores the trees, each over those before it, so that `target` holds all of them or stays as it
// was. What `target` was before is replaced. The files grow in a directory beside it, and what an
// earlier call that was killed had written there is verified and not fetched again. Returns the
// bytes that were fetched.
absl::StatusOr<Bytes> FetchTrees(BlobSource& source, const std::vector<std::string>& manifests,
                                 const std::string& target);

// Whether `directory` holds exactly these trees: every file with its bytes, and nothing else.
absl::StatusOr<bool> HoldsTrees(BlobSource& source, const std::vector<std::string>& manifests,
                                const std::string& directory);

// Removes what calls that were killed left in `directory`.
absl::Status RemoveParts(const std::string& directory);

}  // namespace rt
