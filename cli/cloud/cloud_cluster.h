// A cluster on EC2, as its client sees it. `up` finds or makes the machine of the head, and sets it
// up over ssh as a host (cli/hosts); the head makes the machines of the workers. `down` ends what
// carries the cluster's tag, with the head or without it. Every step may be repeated by this client
// or another one. Blocks; each wait has a bound and says what it waits for. Used by one thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cli/client/home.h"
#include "cli/cloud/aws_file.h"
#include "cli/cloud/cloud_file.h"
#include "cli/cloud/cluster_lock.h"
#include "cli/hosts/host_cluster.h"
#include "common/provider/aws/ec2_cluster.h"
#include "common/yaml/cluster_spec.h"

namespace rt {

class CloudCluster {
 public:
  // True once this client has asked a cloud for a machine of a cluster with this name.
  static bool IsKnown(const Home& home, const std::string& name);
  // Both wait until no other command of this RT_HOME is at work on the cluster.
  static absl::StatusOr<CloudCluster> Load(const Home& home, const std::string& name);
  static absl::StatusOr<CloudCluster> Make(const Home& home, const ClusterSpec& spec);

  // Returns when the head and min_workers of each pool are READY. `unattended`: of the head's
  // configuration (head/config.h); null: the cluster stays up until it is ended.
  absl::StatusOr<HostCluster::UpReport> Up(const ClusterSpec& spec, const Json& unattended);
  // For a cluster that another client may have started. Notes what the tags say, and makes the
  // context when a key of this client opens the head's machine. Notes nothing when nothing is
  // there.
  absl::Status Attach(const ClusterSpec& spec);
  // Starts the head if it is dead. An error when it cannot be asked; NotFound when its machine is
  // gone, or was never set up.
  absl::Status EnsureHead();
  // After an `up` that failed: the same as Remove when that `up` made the machine, else nothing.
  absl::Status Undo();
  // Ends all machines and removes all that was made for the cluster, here and in the cloud. What
  // could not be removed is in the error, and the cluster stays known.
  absl::Status Remove();

 private:
  CloudCluster(const Home& home, std::string name, ClusterLock lock, CloudNote note)
      : home_(home), name_(std::move(name)), lock_(std::move(lock)), note_(std::move(note)) {}
  std::string Directory() const { return home_.ClusterDirectory(name_); }
  std::string KeyFile() const { return Directory() + "/ssh_key"; }

  absl::Status FindHead();
  // Two clients that ask at the same time make two machines. All clients take the oldest one: who
  // has made another one ends it, and continues with that one.
  absl::Status YieldToOlder();
  absl::Status YieldTo(const Ec2Instance& older);
  absl::Status SetUp(const ClusterSpec& spec, const AwsFile& file, const Json& unattended,
                     HostCluster::UpReport& report);
  absl::Status MakeHead(const AwsFile& file);
  absl::Status MakeKey();
  void NarrowOnceConnected(HostCluster& cluster);  // Port 22, to this client's address.
  absl::StatusOr<Ec2Instance> WaitForAddress(const AwsFile& file);
  absl::StatusOr<Json> HeadConfig(const ClusterSpec& spec, const AwsFile& file);
  absl::StatusOr<ClusterSpec> HostSpecOf(const ClusterSpec& spec, const AwsFile& file,
                                         const Ec2Instance& head) const;
  absl::Status WaitForWorkers(const AwsFile& file, HostCluster::UpReport& report) const;

  Home home_;
  std::string name_;
  ClusterLock lock_;
  CloudNote note_;
  std::unique_ptr<Ec2Cluster> ec2_;
  bool has_begun_ = false;  // This object asked for the machine of the head.
};

}  // namespace rt
