// Why a daemon could not start, in STATE_DIR/failed, for whoever waits for it: the daemon's exit
// status reaches only its parent. Advice only: nothing depends on the file.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace rt {

void NoteStartFailure(const std::string& state_dir, const absl::Status& why);
void ClearStartFailure(const std::string& state_dir);  // It serves.
// The reason with its hint; OK when the newest daemon served, or none has failed yet.
absl::Status ReadStartFailure(const std::string& state_dir);

}  // namespace rt
