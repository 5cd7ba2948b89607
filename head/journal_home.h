// Where the head's journal lies, by its configuration: in SQLite, in SQLite and shipped to an
// object store, or in PostgreSQL; and what follows from that: who else may lead, and where the
// cluster's CA is found. Owned by main; its functions are called from there, one at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/cas/object_store.h"
#include "head/cluster_identity.h"
#include "head/config.h"
#include "head/journal/journal.h"
#include "head/journal/lead_beat.h"
#include "head/journal/postgres_journal.h"
#include "head/journal/shipping_journal.h"
#include "head/standby.h"

namespace rt {

class JournalHome {
 public:
  static absl::StatusOr<std::unique_ptr<JournalHome>> Make(const JournalConfig& config,
                                                           const std::string& state_dir);
  virtual ~JournalHome() = default;

  // Before the journal is opened. `may_create`: see LoadIdentity.
  virtual absl::StatusOr<ClusterCa> LoadCa(bool may_create) = 0;
  // Waits until the lead is free, following whoever has it; Cancelled when the process is to end.
  // The state by then. FailedPrecondition when the journal has no other place.
  virtual absl::StatusOr<World> StandBy(const GoOn& go_on) = 0;
  // Takes the lead. Unavailable while another head shows that it leads. `on_lost` is called once,
  // from a thread of the journal's, when this head may write no more.
  virtual absl::StatusOr<std::unique_ptr<Journal>> Open(
      std::function<void(absl::Status)> on_lost) = 0;
  // Tells whoever follows that this head leads, and where it is reached.
  virtual absl::Status Announce(const std::string& address) = 0;
  // The head ends of its own will: ships what is left, and gives up the lead.
  virtual void Finish() = 0;
};

// FailedPrecondition when the journal belongs to another cluster than the CA of the state
// directory: its workers and users would trust nothing that this head says.
absl::Status CheckCluster(Journal& journal, const std::string& cluster_id,
                          const std::string& state_dir);

IdentityVault IdentityVaultIn(ObjectStore& store);  // Beside a shipped journal.

// Makes a state directory from the shipped journal at `url`: identity, journal, newest snapshot.
// The directory must hold neither journal nor CA. The sentence to tell.
absl::StatusOr<std::string> RestoreStateDir(const std::string& url, const std::string& key_file,
                                            const std::string& state_dir);

}  // namespace rt
