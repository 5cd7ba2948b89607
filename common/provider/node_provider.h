// Where nodes come from: this machine, a cloud, a batch system. A machine is what a provider makes;
// it becomes a node when its worker joins. Everything that the head has asked for is a machine
// number in its journal (docs/adr/0025), and every call may be repeated with the same numbers.
//
// Implementations are thread-safe, and their calls block: the head makes them on its io pool. Every
// implementation passes tests/contract/node_provider_suite.h.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/json.h"
#include "common/base/time.h"
#include "common/spec/pool.h"

namespace rt {

// An absl::Status of a provider carries one of the classes of ProviderError. A status without one
// counts as kRetryLater: nobody knows whether the call had an effect.
absl::Status MakeProviderError(ProviderError error, const std::string& message,
                               const std::string& hint = "");
ProviderError ProviderErrorOf(const absl::Status& status);

struct WantedMachine {
  uint64_t number = 0;  // With the cluster's id it is the client token and the tag.
  std::string name;     // That its worker joins under; unique within the cluster.
};
struct CreateCall {
  std::string pool;
  Resources each;
  std::vector<WantedMachine> machines;  // Of one request, ascending by number; at least one.
};
struct MadeMachine {
  uint64_t number = 0;
  std::string id;  // The provider's own name for it, never empty.
  std::string pool;
  friend bool operator==(const MadeMachine&, const MadeMachine&) = default;
};

class NodeProvider {
 public:
  virtual ~NodeProvider() = default;  // Leaves the machines alone.

  // Makes the machines. One that exists under its number is returned and never made again, however
  // often it is asked for. Fewer than asked for: for the others there is no capacity. After an
  // error other than kRetryLater none of them exists.
  virtual absl::StatusOr<std::vector<MadeMachine>> Create(const CreateCall& call) = 0;
  // All machines with the tag of this cluster, by number. A machine may be missing for list_lag()
  // after the Create that made it, and still be there as long after its Terminate.
  virtual absl::StatusOr<std::vector<MadeMachine>> List() = 0;
  // Removes the machines; OK also when they are gone already. When one of the ids is known and
  // lacks the tag of this cluster: kNotOurs, and nothing is removed.
  virtual absl::Status Terminate(const std::vector<std::string>& ids) = 0;
  virtual Millis list_lag() const = 0;
  // Closes what a client of the cluster opened and did not close before it was killed, when its
  // time is over. Called several times a minute.
  virtual absl::Status CloseExpired() { return absl::OkStatus(); }

  // The head ends for good: removes all machines, and the nodes that the provider keeps without
  // being asked. Returns when they are gone.
  virtual void EndAll() = 0;
  // Whether a worker with this state directory was one of the provider's own under an earlier
  // configuration, which the present one no longer names.
  virtual bool Disowns(const std::string& state_dir) const = 0;
};

// What a provider needs of the head.
struct ProviderContext {
  std::string cluster_id;
  std::string cluster_dir;     // For what it keeps on this machine.
  std::string worker_program;  // rt-worker.
  std::string head_address;    // As a worker on this machine dials it.
  std::string head_address_elsewhere;  // As one on another machine does.
  // The text of a new join token for the machine (0: for a node that nobody asked for). May block.
  // An error when the machine is to be removed, or is none of this cluster.
  std::function<absl::StatusOr<std::string>(uint64_t machine, const std::string& name)> make_token;
  // Called when the worker daemon of a node has ended and is started again at once. Does not block;
  // may be null.
  std::function<void(const std::string& name)> daemon_ended;
  // The SHA-256 of the archive of its programs, which its port serves to machines. May block.
  std::function<absl::StatusOr<std::string>()> programs_sha256;
};

// The configuration of a provider, read and checked before anything starts.
class ProviderSetup {
 public:
  virtual ~ProviderSetup() = default;
  // What the nodes have that it keeps without being asked; empty when that is not known before they
  // join, or there are none.
  virtual absl::StatusOr<std::vector<Resources>> NodeSizes() const = 0;
  // What a node of the pool will have; kAnyGpus when only itself will know.
  virtual Resources SizeOf(const PoolSpec& pool) const = 0;
  // Whether its nodes run programs under the account of the head.
  virtual bool SharesAccount() const = 0;
  // Whether its machines get the programs from the head's port.
  virtual bool NeedsPrograms() const { return false; }
  // What a machine runs before its worker, by pool: shell commands of the owner of the file.
  virtual std::map<std::string, std::vector<std::string>> SetupCommands() const { return {}; }
  virtual absl::StatusOr<std::unique_ptr<NodeProvider>> Start(const std::vector<PoolSpec>& pools,
                                                              ProviderContext context) const = 0;
};

}  // namespace rt
