// Which journal the configuration asks for, opened. Used by main before the loop starts.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "head/config.h"
#include "head/journal/journal.h"

namespace rt {

struct OpenedJournal {
  std::unique_ptr<Journal> journal;
  // Tells whoever follows this head where it is reached; may be called from main only.
  std::function<absl::Status(const std::string& address)> set_address;
};
// `on_lost` is called once, from a thread of the journal's, when this head may write no more.
absl::StatusOr<OpenedJournal> OpenJournal(const JournalConfig& config,
                                          const std::string& state_dir,
                                          std::function<void(absl::Status)> on_lost);

// FailedPrecondition when the journal belongs to another cluster than the CA of the state
// directory: its workers and users would trust nothing that this head says.
absl::Status CheckCluster(Journal& journal, const std::string& cluster_id,
                          const std::string& state_dir);

}  // namespace rt
