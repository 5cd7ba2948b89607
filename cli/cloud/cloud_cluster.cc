#include "cli/cloud/cloud_cluster.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "cli/client/head_client.h"
#include "cli/client/local_cluster.h"
#include "cli/client/nouns.h"
#include "common/base/limits_aws.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/provider/aws/head_access.h"
#include "common/provider/node_provider.h"
#include "common/run/clock.h"
#include "common/run/failpoint.h"
#include "common/run/files.h"
#include "common/run/random.h"
#include "common/run/subprocess.h"
#include "common/spec/resources.h"

namespace rt {
namespace {

constexpr Millis kLookEvery = 500;
constexpr Millis kKeygenMax = 20'000;
constexpr Millis kKnownHostMax = 30'000;  // Until a machine that ran before lets us in.
constexpr Millis kWorkersMax = 900'000;   // Until min_workers of all pools are READY.
constexpr Bytes kKeyMax = 16 << 10;
constexpr const char* kHeadNode = "head";
// The percentage of a machine's memory that its operating system leaves to trials.
constexpr int64_t kMemoryShare = 90;

void Tell(const std::string& line) {
  std::fprintf(stderr, "rt: %s\n", EscapeControl(line).c_str());
}

Millis ListLag() {
  const char* text = std::getenv("RT_EC2_LIST_LAG_MS");  // For tests.
  return text == nullptr ? limits::kEc2ListLag : std::max(0, std::atoi(text));
}

// The resources that the planner expects of a machine of the pool, before the first one has joined.
std::string PlannedResources(const NodePool& pool, const Ec2InstanceType& type) {
  if (!pool.resources.empty() && pool.resources.find("cpu=") != std::string::npos)
    return pool.resources;
  Resources planned = type.resources;
  planned.memory = planned.memory / 100 * kMemoryShare;
  const std::string flag = ToFlag(planned);
  return pool.resources.empty() ? flag : "cpu=" + FormatUnits(planned.cpu) + "," + pool.resources;
}

bool NamesKey(const Ec2Pool& head) { return !head.node_config.GetString("KeyName").empty(); }

bool NamesProfile(const Ec2Pool& head) {
  const Json* profile = head.node_config.Find("IamInstanceProfile");
  return profile != nullptr && !profile->is_null();
}

bool PassesRoles(const AwsFile& file) {
  return std::any_of(file.workers.begin(), file.workers.end(), [](const NodePool& pool) {
    return pool.node_config.Find("IamInstanceProfile") != nullptr;
  });
}

absl::Status ExplainRole(const absl::Status& status) {
  if (status.ok()) return status;
  return WithHint(Annotate(status, "the role under which the head makes the workers' machines"),
                  "write 'IamInstanceProfile: {Name: …}' into the node_config of the head, with a "
                  "role that may call ec2:RunInstances, TerminateInstances, CreateTags, Describe*, "
                  "CreateSecurityGroup and AuthorizeSecurityGroupIngress; or allow iam:CreateRole, "
                  "PutRolePolicy, CreateInstanceProfile, AddRoleToInstanceProfile and PassRole to "
                  "your own credentials");
}

}  // namespace

bool CloudCluster::IsKnown(const Home& home, const std::string& name) {
  return Home::IsName(name) && Exists(CloudFile(home.ClusterDirectory(name)));
}

absl::StatusOr<CloudCluster> CloudCluster::Load(const Home& home, const std::string& name) {
  RT_ASSIGN_OR_RETURN(ClusterLock lock, ClusterLock::Acquire(home, name));
  RT_ASSIGN_OR_RETURN(CloudNote note, ReadCloudFile(home.ClusterDirectory(name)));
  CloudCluster cluster(home, name, std::move(lock), std::move(note));
  RT_ASSIGN_OR_RETURN(cluster.ec2_, Ec2Cluster::Open(cluster.note_.provider));
  return cluster;
}

absl::StatusOr<CloudCluster> CloudCluster::Make(const Home& home, const ClusterSpec& spec) {
  const std::string& name = spec.cluster_name;
  RT_ASSIGN_OR_RETURN(const AwsFile file, ReadAwsFile(spec));
  RT_ASSIGN_OR_RETURN(ClusterLock lock, ClusterLock::Acquire(home, name));
  absl::StatusOr<CloudNote> note = ReadCloudFile(home.ClusterDirectory(name));
  if (!note.ok() && !absl::IsNotFound(note.status())) return note.status();
  if (!note.ok() && home.IsUp(name))
    return WithHint(
        absl::AlreadyExistsError(ToAbsl("'" + name + "' is known here as another kind of cluster")),
        "use another cluster_name, or end that one first: 'rt down " + name +
            "' or 'rt context remove " + name + "'");
  CloudCluster cluster(home, name, std::move(lock), note.ok() ? *std::move(note) : CloudNote{});
  cluster.note_.provider = file.provider;
  RT_ASSIGN_OR_RETURN(cluster.ec2_, Ec2Cluster::Open(file.provider));
  return cluster;
}

// The head's machine by its tag. One that this client has noted and that is gone took the head's
// state with it: what else it had made is removed, and the cluster begins anew.
absl::Status CloudCluster::FindHead() {
  RT_ASSIGN_OR_RETURN(const std::vector<Ec2Instance> heads, ec2_->Heads());
  for (const Ec2Instance& head : heads) {
    if (head.cluster_id == heads.front().cluster_id) continue;
    if (note_.made_here && head.cluster_id == note_.cluster_id) return YieldTo(heads.front());
    if (!note_.made_here || heads.front().cluster_id != note_.cluster_id)
      return WithHint(
          absl::FailedPreconditionError(ToAbsl("there are two clusters called '" + name_ +
                                               "' in this region: their heads are " +
                                               heads.front().id + " and " + head.id)),
          "two clients may be starting it at this moment: try again; or end one of them where it "
          "was started, or terminate the instance that is not wanted");
  }
  if (!heads.empty()) {
    note_.cluster_id = heads.front().cluster_id;
    note_.instance = heads.front().id;
    return absl::OkStatus();
  }
  if (note_.instance.empty()) return absl::OkStatus();
  const absl::StatusOr<Ec2Instance> known = ec2_->Find(note_.instance);
  if (known.ok() && known->is_there()) return absl::OkStatus();
  if (!known.ok() && !absl::IsNotFound(known.status())) return known.status();
  if (!known.ok() && WallClock() < note_.asked_at + ListLag()) return absl::OkStatus();
  Tell("the head's machine " + note_.instance + " is gone: the cluster begins anew");
  return Remove();
}

absl::Status CloudCluster::YieldToOlder() {
  if (!note_.made_here) return absl::OkStatus();
  RT_ASSIGN_OR_RETURN(const std::vector<Ec2Instance> heads, ec2_->Heads());
  if (heads.empty() || heads.front().cluster_id == note_.cluster_id) return absl::OkStatus();
  const absl::StatusOr<Ec2Instance> own = ec2_->Find(note_.instance);
  if (absl::IsNotFound(own.status())) return absl::OkStatus();  // It is looked at again later.
  RT_RETURN_IF_ERROR(own.status());
  const Ec2Instance& first = heads.front();
  const bool is_older =
      std::pair(first.launched_at, first.id) < std::pair(own->launched_at, own->id);
  return is_older ? YieldTo(first) : absl::OkStatus();
}

absl::Status CloudCluster::YieldTo(const Ec2Instance& older) {
  Tell("another client made the head's machine of '" + name_ + "' first, " + older.id +
       ": what this client has made is ended");
  // Machines of both clusters are in the group, whoever has made it.
  RT_RETURN_IF_ERROR(ec2_->GiveGroups(note_.cluster_id, older.cluster_id));
  ReachFailpoint("client.up.before_yield");
  const std::vector<std::string> left =
      ec2_->Remove({.cluster_id = note_.cluster_id, .has_role = note_.has_role});
  if (!left.empty())
    return absl::FailedPreconditionError(
        ToAbsl("what this client has made could not be removed: " + Join(left, "; ")));
  for (const char* end : {"", ".pub"}) RT_RETURN_IF_ERROR(RemoveTree(KeyFile() + end));
  CloudNote note{.provider = note_.provider, .cluster_id = older.cluster_id, .instance = older.id};
  note_ = std::move(note);
  has_begun_ = false;
  return WriteCloudFile(Directory(), note_);
}

absl::Status CloudCluster::MakeKey() {
  if (!Exists(KeyFile())) {
    RT_RETURN_IF_ERROR(RemoveTree(KeyFile() + ".pub"));
    const std::string made = KeyFile() + ".new";
    RT_RETURN_IF_ERROR(RemoveTree(made));
    RT_RETURN_IF_ERROR(RemoveTree(made + ".pub"));
    RT_ASSIGN_OR_RETURN(const ProgramResult done,
                        RunProgram({.argv = {"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C",
                                             HeadKeyName(note_.cluster_id), "-f", made}},
                                   "", kKeygenMax));
    if (!done.exit.ok())
      return absl::InternalError(ToAbsl("ssh-keygen: " + ToString(done.exit) + " " + done.output));
    for (const char* end : {".pub", ""})  // The private key last: it says that both are there.
      if (std::rename((made + end).c_str(), (KeyFile() + end).c_str()) != 0)
        return ErrnoStatus(errno, "rename " + made);
  }
  RT_ASSIGN_OR_RETURN(const std::string key, ReadFile(KeyFile() + ".pub", kKeyMax));
  return ec2_->ImportKey(note_.cluster_id, std::string(Trim(key)));
}

absl::Status CloudCluster::MakeHead(const AwsFile& file) {
  Ec2Pool pool = file.head;
  if (note_.cluster_id.empty()) note_.cluster_id = RandomHex(8);
  has_begun_ = note_.made_here = true;
  RT_RETURN_IF_ERROR(WriteCloudFile(Directory(), note_));
  ReachFailpoint("client.up.before_key");
  if (file.key.empty() && !NamesKey(pool)) {
    RT_RETURN_IF_ERROR(MakeKey());
    pool.node_config.Set("KeyName", HeadKeyName(note_.cluster_id));
  }
  ReachFailpoint("client.up.before_role");
  if (note_.has_role) {
    RT_RETURN_IF_ERROR(ExplainRole(ec2_->MakeRole(note_.cluster_id, PassesRoles(file))));
    pool.node_config.Set("IamInstanceProfile",
                         Json::MakeObject({{"Name", HeadRoleName(note_.cluster_id)}}));
  }
  Tell("asking EC2 for the machine of the head (" + pool.instance_types.front() + ")");
  note_.asked_at = WallClock();
  RT_RETURN_IF_ERROR(WriteCloudFile(Directory(), note_));
  ReachFailpoint("client.up.before_create");
  absl::StatusOr<std::string> made = ec2_->CreateHead(note_.cluster_id, pool);
  ReachFailpoint("client.up.after_create");
  if (made.ok()) {
    note_.instance = *std::move(made);
    return absl::OkStatus();
  }
  if (ProviderErrorOf(made.status()) != ProviderError::kRetryLater) note_.asked_at = 0;
  return Annotate(made.status(), "the machine of the head");
}

absl::StatusOr<Ec2Instance> CloudCluster::WaitForAddress(const AwsFile& file) {
  const Millis until = SteadyClock() + limits::kEc2BootMax;
  Tell("waiting until the head's machine " + note_.instance + " runs");
  while (true) {
    const absl::StatusOr<Ec2Instance> found = ec2_->Find(note_.instance);
    if (!found.ok() && !absl::IsNotFound(found.status())) return found.status();
    if (found.ok() && !found->is_there())
      return WithHint(absl::UnavailableError(ToAbsl("the head's machine " + note_.instance +
                                                    " has ended: it is " + found->state)),
                      "see its state transition reason in the EC2 console, then run 'rt up' again");
    if (found.ok() && found->state == "running") {
      Ec2Instance head = *found;
      if (file.uses_internal_addresses || head.address.empty()) head.address = head.private_address;
      if (!head.address.empty()) return head;
    }
    if (SteadyClock() >= until)
      return WithHint(absl::DeadlineExceededError(ToAbsl(
                          "the head's machine " + note_.instance + " does not run after 5 minutes" +
                          (found.ok() ? ": it is " + found->state : ""))),
                      "run 'rt up' again to wait longer, or 'rt down' to end it");
    SleepFor(kLookEvery);
  }
}

absl::StatusOr<Json> CloudCluster::HeadConfig(const ClusterSpec& spec, const AwsFile& file) {
  std::vector<std::string> names;
  for (const NodePool& pool : file.workers)
    if (std::find(names.begin(), names.end(), pool.instance_type) == names.end())
      names.push_back(pool.instance_type);
  std::map<std::string, Ec2InstanceType> types;
  if (!names.empty()) {
    RT_ASSIGN_OR_RETURN(types, ec2_->Types(names));
  }
  Json pools = Json::MakeArray();
  for (const NodePool& pool : file.workers)
    pools.Append(
        Json::MakeObject({{"name", pool.name},
                          {"resources", PlannedResources(pool, types.at(pool.instance_type))},
                          {"min_workers", pool.min_workers},
                          {"max_workers", pool.max_workers},
                          {"idle_timeout_s", pool.idle_timeout_s},
                          {"upscaling_speed", spec.upscaling_speed}}));
  return Json::MakeObject({{"provider", file.provider},
                           {"pools", std::move(pools)},
                           {"max_workers", spec.max_workers},
                           {"autoscaling", spec.autoscaling}});
}

// The head's machine as the only host of a cluster.
absl::StatusOr<ClusterSpec> CloudCluster::HostSpecOf(const ClusterSpec& spec, const AwsFile& file,
                                                     const Ec2Instance& head) const {
  std::string key = file.key;
  if (key.empty() && !NamesKey(file.head)) {
    key = KeyFile();
    if (!Exists(key))
      return WithHint(absl::FailedPreconditionError(ToAbsl("the head's machine " + head.id +
                                                           " was made by another client, "
                                                           "and the key of its ssh is there")),
                      "name a key that all of you have: auth: {ssh_private_key: FILE}, and its "
                      "KeyName in the node_config of the head");
  }
  ClusterSpec hosts = spec;
  hosts.says_min_workers = false;
  hosts.hosts = HostList{.proxy_command = file.proxy_command,
                         .directory = "",
                         .head_port = file.head_port,
                         .cluster_id = note_.cluster_id};
  for (const NodePool& pool : spec.pools) {
    if (!pool.is_head) continue;
    if (pool.initialization_commands.has_value())
      hosts.setup.initialization = *pool.initialization_commands;
    hosts.hosts.hosts.push_back({.name = kHeadNode,
                                 .address = head.address,
                                 .user = file.user,
                                 .key = key,
                                 .resources = pool.resources,
                                 .labels = pool.labels});
  }
  return hosts;
}

absl::Status CloudCluster::WaitForWorkers(const AwsFile& file,
                                          HostCluster::UpReport& report) const {
  size_t wanted = 1;
  for (const NodePool& pool : file.workers) wanted += static_cast<size_t>(pool.min_workers);
  if (wanted == 1) return absl::OkStatus();
  Tell("waiting for " + std::to_string(wanted - 1) + " workers to join");
  RT_ASSIGN_OR_RETURN(std::unique_ptr<HeadClient> client, ConnectTo(home_, name_));
  const Millis until = SteadyClock() + kWorkersMax;
  while (true) {
    RT_ASSIGN_OR_RETURN(const Json list, ListNodes(*client));
    report.ready = 0;
    if (const Json* nodes = list.Find("items"); nodes != nullptr && nodes->is_array())
      for (const Json& node : nodes->array())
        report.ready += node.GetString("state") == "READY" ? 1 : 0;
    if (report.ready >= wanted) return absl::OkStatus();
    if (SteadyClock() >= until)
      return WithHint(absl::DeadlineExceededError(ToAbsl("only " + std::to_string(report.ready) +
                                                         " of " + std::to_string(wanted) +
                                                         " nodes are READY after 15 minutes")),
                      "see 'rt status' and 'rt node list'; 'rt up' waits again");
    SleepFor(kLookEvery);
  }
}

absl::StatusOr<HostCluster::UpReport> CloudCluster::Up(const ClusterSpec& spec,
                                                       const Json& unattended) {
  RT_ASSIGN_OR_RETURN(const AwsFile file, ReadAwsFile(spec));
  for (const std::string& warning : file.warnings) Tell("warning: " + warning);
  RT_RETURN_IF_ERROR(FindHead());
  note_.has_role = !NamesProfile(file.head);
  if (note_.instance.empty()) RT_RETURN_IF_ERROR(MakeHead(file));
  RT_RETURN_IF_ERROR(WriteCloudFile(Directory(), note_));
  RT_RETURN_IF_ERROR(YieldToOlder());
  HostCluster::UpReport report;
  RT_RETURN_IF_ERROR(ec2_->OpenSsh());
  const absl::Status set_up = SetUp(spec, file, unattended, report);
  const absl::Status closed = ec2_->CloseSsh();
  RT_RETURN_IF_ERROR(set_up);
  RT_RETURN_IF_ERROR(Annotate(closed, "close port 22 of the head's machine"));
  RT_RETURN_IF_ERROR(WaitForWorkers(file, report));
  return report;
}

// The machine of the head says under which address this client arrives there.
void CloudCluster::NarrowOnceConnected(HostCluster& cluster) {
  cluster.OnConnected([this](const std::string& client) {
    if (const absl::Status done = ec2_->NarrowSsh(client); !done.ok())
      Tell("warning: port 22 stays open to every address until this command ends: " +
           MessageOf(done));
  });
}

// Over ssh, which is open meanwhile.
absl::Status CloudCluster::SetUp(const ClusterSpec& spec, const AwsFile& file,
                                 const Json& unattended, HostCluster::UpReport& report) {
  RT_ASSIGN_OR_RETURN(Json config, HeadConfig(spec, file));
  config.Set("unattended", unattended);
  RT_ASSIGN_OR_RETURN(Ec2Instance head, WaitForAddress(file));
  RT_RETURN_IF_ERROR(YieldToOlder());  // By now the lists show what was made before it.
  if (head.id != note_.instance) {
    RT_ASSIGN_OR_RETURN(head, WaitForAddress(file));
  }
  RT_ASSIGN_OR_RETURN(const ClusterSpec hosts, HostSpecOf(spec, file, head));
  ReachFailpoint("client.up.before_setup");
  RT_ASSIGN_OR_RETURN(HostCluster cluster, HostCluster::Make(home_, hosts));
  cluster.AddHeadConfig(config);
  NarrowOnceConnected(cluster);
  const bool is_booting = has_begun_ || !home_.IsUp(name_);
  cluster.WaitForHosts(SteadyClock() + (is_booting ? limits::kEc2BootMax : kKnownHostMax));
  Tell("setting up the head's machine over ssh (" + file.user + "@" + head.address + ")");
  RT_ASSIGN_OR_RETURN(report, cluster.Up(hosts));
  ReachFailpoint("client.up.after_setup");
  return absl::OkStatus();
}

absl::Status CloudCluster::Attach(const ClusterSpec& spec) {
  RT_ASSIGN_OR_RETURN(const AwsFile file, ReadAwsFile(spec));
  if (note_.made_here) return absl::OkStatus();
  RT_RETURN_IF_ERROR(FindHead());
  note_.has_role = !NamesProfile(file.head);
  if (note_.instance.empty()) {  // It has ended, and may have left something.
    RT_ASSIGN_OR_RETURN(const std::set<std::string> ids, ec2_->ClusterIds());
    if (ids.empty()) return absl::OkStatus();
    note_.cluster_id = *ids.begin();
    return WriteCloudFile(Directory(), note_);
  }
  RT_RETURN_IF_ERROR(WriteCloudFile(Directory(), note_));
  RT_ASSIGN_OR_RETURN(const Ec2Instance head, WaitForAddress(file));
  const absl::StatusOr<ClusterSpec> hosts = HostSpecOf(spec, file, head);
  if (!hosts.ok()) return absl::OkStatus();  // Its machines can be ended all the same.
  RT_ASSIGN_OR_RETURN(HostCluster cluster, HostCluster::Make(home_, *hosts));
  RT_RETURN_IF_ERROR(ec2_->OpenSsh());
  NarrowOnceConnected(cluster);
  cluster.Attach().IgnoreError();
  return ec2_->CloseSsh();
}

absl::Status CloudCluster::EnsureHead() {
  if (!home_.IsUp(name_) && note_.made_here)
    return NotFound("the head of '" + name_ + "' was never started");
  if (note_.instance.empty()) return NotFound("the head's machine of '" + name_ + "' is gone");
  const absl::StatusOr<Ec2Instance> head = ec2_->Find(note_.instance);
  if (!head.ok()) return head.status();
  if (!head->is_there()) return NotFound("the head's machine " + note_.instance + " is gone");
  if (!home_.IsUp(name_))
    return absl::FailedPreconditionError(
        ToAbsl("no key of this client opens the head's machine " + note_.instance));
  RT_ASSIGN_OR_RETURN(HostCluster hosts, HostCluster::Load(home_, name_));
  RT_RETURN_IF_ERROR(ec2_->OpenSsh());
  NarrowOnceConnected(hosts);
  const absl::Status ensured = hosts.EnsureHead();
  RT_RETURN_IF_ERROR(ec2_->CloseSsh());
  return ensured;
}

absl::Status CloudCluster::Undo() {
  if (has_begun_) return Remove();
  return IsKnown(home_, name_) ? absl::OkStatus() : home_.Forget(name_);
}

absl::Status CloudCluster::Remove() {
  if (!note_.cluster_id.empty()) {
    Tell("ending the machines of the cluster");
    const bool may_lag = note_.instance.empty() && note_.asked_at != 0;
    ReachFailpoint("client.down.before_machines");
    const std::vector<std::string> left =
        ec2_->Remove({.cluster_id = note_.cluster_id,
                      .listed_from = may_lag ? note_.asked_at + ListLag() : 0,
                      .has_role = note_.has_role});
    if (!left.empty())
      return WithHint(absl::FailedPreconditionError(
                          ToAbsl("not everything could be removed: " + Join(left, "; "))),
                      "repeat 'rt down " + name_ +
                          "'; in the console, what belongs to it has the "
                          "tag rt-cluster-id=" +
                          note_.cluster_id);
  }
  ReachFailpoint("client.down.before_forget");
  note_.cluster_id.clear();
  note_.instance.clear();
  note_.asked_at = 0;
  return home_.Forget(name_);
}

}  // namespace rt
