// What the head keeps in its state directory beside journal and blobs: the CA (ca/), the admin's
// context (admin/), and where it is reached (pid, address). Used by main before and after serving.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/rpc/identity.h"
#include "head/options.h"

namespace rt {

struct ClusterCa {
  std::string cluster_id;
  KeyPair ca;
};
// Made on the first start; ca/cluster_id is written last and says that it is whole. The id is that
// of the file new_cluster_id, which whoever has tagged the head's machine with it wrote, or random.
absl::StatusOr<ClusterCa> LoadOrCreateCa(const std::string& state_dir);
absl::Status WriteCa(const std::string& state_dir, const ClusterCa& ca);

// The head's own certificate, for these host names and addresses; new at every start.
absl::StatusOr<Credentials> MakeHeadCredentials(const ClusterCa& ca,
                                                const std::vector<std::string>& hosts);

// admin/{ca.pem,cert.pem,key.pem} on the first start, admin/context.json at every one.
absl::Status WriteAdminContext(const std::string& state_dir, const ClusterCa& ca,
                               const std::string& cluster_name, const std::string& address);

// Where the last run listened; empty host when there was none.
HostPort LastAddress(const std::string& state_dir);
// Written last, once it serves: to pid, listen and address.
struct Reached {
  HostPort listen;
  HostPort advertise;
};
absl::Status WriteWhereabouts(const std::string& state_dir, const Reached& reached);
void RemovePid(const std::string& state_dir);

// That the directory is an older copy of a head's state, until a head has started with it.
absl::Status NoteRestored(const std::string& state_dir);
bool WasRestored(const std::string& state_dir);
void ForgetRestored(const std::string& state_dir);

// A file that is given up when the disk is full, so that there is room to say so in the log. Made
// again at every start: an error when there is no room for it, and then it is given up as well.
absl::Status ReserveSpace(const std::string& state_dir);
// What to tell people about a journal that cannot be written; gives up the reserve.
std::string ExplainJournalFailure(const std::string& state_dir, const absl::Status& status);
// An error of damaged data that the head ends with at its start, with what to do about it.
absl::Status AdviseOnDamage(const absl::Status& status, const std::string& state_dir);

}  // namespace rt
