// Takes what a trial saved out of its hands: by rename when it gives the files away, else by
// reflink where the file system has that, else by copying. Never by a hard link, through which the
// trial's next save would change what is being pushed.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace rt::worker {

// `from` (a directory, or a file) becomes the directory `to`, which must not be there: the file
// lies in it under its own name. Links are kept as they are; what is neither file, folder nor link
// is left out. With `given`, `from` may be gone afterwards, and is, as a whole, before `to` is
// there, or not at all.
absl::Status TakeSnapshot(const std::string& from, const std::string& to, bool given);

}  // namespace rt::worker
