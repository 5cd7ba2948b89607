#include "common/provider/aws/ec2_provider.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>

#include "common/aws/sigv4.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/provider/aws/ec2_error.h"
#include "common/provider/aws/ec2_instances.h"
#include "common/provider/aws/run_instance.h"
#include "common/provider/aws/ssh_rule.h"
#include "common/provider/aws/user_data.h"
#include "common/run/clock.h"
#include "common/run/failpoint.h"

namespace rt {
namespace {

constexpr Millis kEndPoll = 1'000;
constexpr char kTokenWithOtherParameters[] = "IdempotentParameterMismatch";

bool IsUnclear(const absl::Status& status) {
  return ProviderErrorOf(status) == ProviderError::kRetryLater;
}

// One of these was looked up by us, and is gone since.
bool IsStale(const absl::Status& status) {
  const std::string code = Ec2CodeOf(status);
  return code == "InvalidGroup.NotFound" || code == "InvalidSecurityGroupID.NotFound" ||
         code == "InvalidSubnetID.NotFound";
}

// As rt-worker's flag takes it; empty: never.
std::string DurationText(Millis span) {
  return span == 0 ? "" : std::to_string(span / 1'000) + "s";
}

bool Contains(const std::vector<std::string>& ids, const std::string& id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

class Ec2Provider final : public NodeProvider {
 public:
  explicit Ec2Provider(Ec2ProviderOptions options)
      : options_(std::move(options)),
        sleep_(options_.client.sleep ? options_.client.sleep : SleepFor),
        chain_(http_, options_.environment),
        client_(http_, chain_, options_.endpoint, options_.client) {}

  absl::StatusOr<std::vector<MadeMachine>> Create(const CreateCall& call) override;
  absl::StatusOr<std::vector<MadeMachine>> List() override;
  absl::Status Terminate(const std::vector<std::string>& ids) override;
  absl::Status CloseExpired() override {
    return CloseExpiredSsh(client_, options_.context.cluster_id, WallClock());
  }
  Millis list_lag() const override { return options_.list_lag; }
  void EndAll() override;
  bool Disowns(const std::string&) const override { return false; }

 private:
  // Where the machines of a pool are asked for.
  struct Place {
    std::vector<LadderStep> ladder;
    std::string group, image;
  };
  // A Create of a machine whose answer is missing: it continues where it was, with the same words.
  struct Begun {
    std::optional<size_t> step;
    std::string user_data;
  };
  struct Launch {
    const Ec2Pool& pool;
    const Place& place;
    std::atomic<size_t> step = 0;  // The steps before it had no machine a moment ago,
    absl::Status why;              // because of this. Guarded by mutex_.
  };

  const Ec2Pool* PoolCalled(const std::string& name) const;
  absl::StatusOr<Place> PlaceOf(const Ec2Pool& pool);
  absl::StatusOr<std::map<uint64_t, Ec2Instance>> Living(const std::vector<uint64_t>& machines);
  absl::StatusOr<std::string> Ascend(Launch& launch, const WantedMachine& machine);
  absl::StatusOr<std::string> Ask(const Launch& launch, const LadderStep& step,
                                  const WantedMachine& machine, const std::string& user_data);
  absl::StatusOr<std::string> FoundByTag(uint64_t machine);
  absl::StatusOr<std::string> UserDataOf(const Ec2Pool& pool, const WantedMachine& machine);
  bool IsOurs(const Ec2Instance& instance) const;
  absl::StatusOr<Begun> Begin(const Ec2Pool& pool, const WantedMachine& machine);
  std::map<std::string, std::string> TagsOf(const Ec2Pool& pool, uint64_t machine) const;

  const Ec2ProviderOptions options_;
  const std::function<void(Millis)> sleep_;
  HttpClient http_;
  CredentialChain chain_;
  Ec2Client client_;
  std::mutex place_mutex_;  // Held while EC2 is asked: one looks, the others wait for it.
  std::map<std::string, Place> places_;
  std::mutex mutex_;  // Guards what follows.
  std::map<uint64_t, Begun> begun_;
  struct Made {
    std::string id;
    Millis at = 0;
  };
  std::map<uint64_t, Made> made_;  // Of which a list may not know yet.
};

const Ec2Pool* Ec2Provider::PoolCalled(const std::string& name) const {
  for (const Ec2Pool& pool : options_.pools)
    if (pool.name == name) return &pool;
  return nullptr;
}

absl::StatusOr<Ec2Provider::Place> Ec2Provider::PlaceOf(const Ec2Pool& pool) {
  std::lock_guard lock(place_mutex_);
  if (const auto known = places_.find(pool.name); known != places_.end()) return known->second;
  RT_ASSIGN_OR_RETURN(auto subnets, FindSubnets(client_, pool, options_.network.zones));
  Place place{.ladder = LadderOf(pool, subnets)};
  if (!NamesGroups(pool.node_config)) {
    RT_ASSIGN_OR_RETURN(place.group,
                        EnsureSecurityGroup(client_, subnets.front().vpc, options_.network));
  }
  const bool has_image = !pool.node_config.GetString("ImageId").empty() ||
                         pool.node_config.Find("LaunchTemplate") != nullptr;
  if (!has_image) {
    RT_ASSIGN_OR_RETURN(auto types, DescribeInstanceTypes(client_, pool.instance_types));
    RT_ASSIGN_OR_RETURN(
        place.image, FindDefaultImage(client_, types.at(pool.instance_types.front()).architecture));
  }
  return places_[pool.name] = std::move(place);
}

std::map<std::string, std::string> Ec2Provider::TagsOf(const Ec2Pool& pool,
                                                       uint64_t machine) const {
  std::map<std::string, std::string> tags = options_.tags;
  const std::string role = options_.role == Ec2Role::kHead ? kEc2HeadRole : "worker";
  const std::string name = "ray-" + options_.cluster_name + "-" + role;
  tags.emplace("Name", name);
  tags[kEc2NameTag] = options_.cluster_name;
  tags["ray-node-name"] = name;
  tags[kEc2RoleTag] = role;
  tags[kEc2PoolTag] = pool.name;
  tags[kEc2ClusterTag] = options_.context.cluster_id;
  tags[kEc2MachineTag] = std::to_string(machine);
  return tags;
}

bool Ec2Provider::IsOurs(const Ec2Instance& instance) const {
  const bool is_head = instance.machine == 0 && instance.role == kEc2HeadRole;
  return instance.cluster_id == options_.context.cluster_id &&
         (options_.role == Ec2Role::kHead ? is_head : instance.machine != 0);
}

// By number. Two instances of one number can only come of a Create that was repeated by a head
// which did not know the step that the first had reached; the journal knows the later one or none.
absl::StatusOr<std::map<uint64_t, Ec2Instance>> Ec2Provider::Living(
    const std::vector<uint64_t>& machines) {
  RT_ASSIGN_OR_RETURN(auto instances,
                      InstancesOfCluster(client_, options_.context.cluster_id, machines));
  std::map<uint64_t, Ec2Instance> living;
  std::vector<std::string> doubles;
  for (Ec2Instance& instance : instances) {
    if (!instance.is_there() || !IsOurs(instance)) continue;
    auto [known, is_new] = living.try_emplace(instance.machine, instance);
    if (is_new) continue;
    if (known->second.launched_at < instance.launched_at) std::swap(known->second, instance);
    doubles.push_back(instance.id);
  }
  if (!doubles.empty()) {
    RT_LOG(kWarning) << doubles.size() << " instances have the number of another and are removed";
    RT_RETURN_IF_ERROR(TerminateInstances(client_, doubles));
  }
  std::lock_guard lock(mutex_);
  for (const auto& [number, instance] : living) made_.erase(number);
  return living;
}

absl::StatusOr<std::string> Ec2Provider::UserDataOf(const Ec2Pool& pool,
                                                    const WantedMachine& machine) {
  if (options_.role == Ec2Role::kHead) return std::string(kHeadUserData);
  RT_ASSIGN_OR_RETURN(std::string token, options_.context.make_token(machine.number, machine.name));
  std::string sha256 = options_.programs.sha256;
  if (NeedsProgramsOfHead(options_.programs) && options_.context.programs_sha256) {
    absl::StatusOr<std::string> packed = options_.context.programs_sha256();
    if (!packed.ok())
      return MakeProviderError(ProviderError::kBadConfiguration, MessageOf(packed.status()),
                               HintOf(packed.status()));
    sha256 = *std::move(packed);
  }
  return WorkerUserData({.head_address = options_.context.head_address_elsewhere,
                         .token = std::move(token),
                         .name = machine.name,
                         .resources = pool.resources,
                         .labels = pool.labels,
                         .user = options_.user,
                         .dead_man = DurationText(options_.dead_man),
                         .programs_sha256 = std::move(sha256),
                         .programs_url = options_.programs.url});
}

absl::StatusOr<Ec2Provider::Begun> Ec2Provider::Begin(const Ec2Pool& pool,
                                                      const WantedMachine& machine) {
  {
    std::lock_guard lock(mutex_);
    if (const auto known = begun_.find(machine.number); known != begun_.end()) return known->second;
  }
  Begun begun;
  RT_ASSIGN_OR_RETURN(begun.user_data, UserDataOf(pool, machine));
  return begun;
}

// The instance that an earlier head has asked for under the same token: its words were others,
// because they held another join token.
absl::StatusOr<std::string> Ec2Provider::FoundByTag(uint64_t machine) {
  RT_ASSIGN_OR_RETURN(auto instances,
                      InstancesOfCluster(client_, options_.context.cluster_id, {machine}));
  for (const bool living : {true, false})
    for (const Ec2Instance& instance : instances)
      if (instance.is_there() == living) return instance.id;
  return absl::UnavailableError(ToAbsl("EC2 knows the token of machine " + std::to_string(machine) +
                                       " and does not list it yet"));
}

absl::StatusOr<std::string> Ec2Provider::Ask(const Launch& launch, const LadderStep& step,
                                             const WantedMachine& machine,
                                             const std::string& user_data) {
  RT_ASSIGN_OR_RETURN(const Ec2Parameters parameters,
                      ParametersOf({.pool = &launch.pool,
                                    .step = step,
                                    .image = launch.place.image,
                                    .group = launch.place.group,
                                    .client_token = Ec2ClientToken(options_.context.cluster_id,
                                                                   machine.number, step),
                                    .user_data = user_data,
                                    .tags = TagsOf(launch.pool, machine.number)}));
  const absl::StatusOr<XmlNode> answer = client_.Call("RunInstances", parameters);
  if (Ec2CodeOf(answer.status()) == kTokenWithOtherParameters) return FoundByTag(machine.number);
  if (!answer.ok()) return answer.status();
  const std::string id = answer->Text("instancesSet/item/instanceId");
  if (!id.empty()) return id;
  return absl::UnavailableError("EC2 RunInstances: the answer names no instance");
}

absl::StatusOr<std::string> Ec2Provider::Ascend(Launch& launch, const WantedMachine& machine) {
  {
    std::lock_guard lock(mutex_);
    if (const auto made = made_.find(machine.number); made != made_.end()) return made->second.id;
  }
  RT_ASSIGN_OR_RETURN(Begun begun, Begin(launch.pool, machine));
  const std::vector<LadderStep>& ladder = launch.place.ladder;
  absl::Status last;
  for (size_t at = begun.step.value_or(launch.step); at < ladder.size(); ++at) {
    {
      std::lock_guard lock(mutex_);
      begun_[machine.number] = {at, begun.user_data};
    }
    absl::StatusOr<std::string> id = Ask(launch, ladder[at], machine, begun.user_data);
    if (!id.ok() && IsUnclear(id.status())) return id.status();
    std::lock_guard lock(mutex_);
    if (id.ok()) {
      begun_.erase(machine.number);
      made_[machine.number] = {*id, SteadyClock()};
      return id;
    }
    last = Annotate(id.status(), Describe(ladder[at]));
    if (!MayBeHadElsewhere(last)) break;
    launch.why = last;
    RT_LOG(kInfo) << "machine " << machine.number << ": " << MessageOf(last);
    size_t known = launch.step;
    while (known < at + 1 && !launch.step.compare_exchange_weak(known, at + 1)) {
    }
  }
  std::lock_guard lock(mutex_);
  begun_.erase(machine.number);
  return last.ok() ? launch.why : last;  // OK: another machine has met the end of the ladder.
}

absl::StatusOr<std::vector<MadeMachine>> Ec2Provider::Create(const CreateCall& call) {
  const Ec2Pool* pool = PoolCalled(call.pool);
  if (pool == nullptr)
    return MakeProviderError(ProviderError::kBadConfiguration, "no pool '" + call.pool + "'");
  std::vector<uint64_t> numbers;
  for (const WantedMachine& machine : call.machines) numbers.push_back(machine.number);
  RT_ASSIGN_OR_RETURN(const auto living, Living(numbers));
  RT_ASSIGN_OR_RETURN(const Place place, PlaceOf(*pool));
  if (options_.role == Ec2Role::kHead) ReachFailpoint("client.up.after_group");

  Launch launch{.pool = *pool, .place = place};
  std::vector<absl::StatusOr<std::string>> ids(call.machines.size(), absl::UnknownError(""));
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < call.machines.size(); i = next++) {
      const auto known = living.find(call.machines[i].number);
      ids[i] = known != living.end() ? known->second.id : Ascend(launch, call.machines[i]);
    }
  };
  {
    std::vector<std::jthread> threads;
    const size_t missing = call.machines.size() - living.size();
    for (size_t i = 1; i < std::min(missing, limits::kEc2CreatesAtOnce); ++i)
      threads.emplace_back(work);
    work();
  }

  std::vector<MadeMachine> made;
  absl::Status failed, unclear;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i].ok()) made.push_back({call.machines[i].number, *ids[i], call.pool});
    else if (IsUnclear(ids[i].status())) unclear = ids[i].status();
    else failed = ids[i].status();
    if (IsStale(ids[i].status())) {
      std::lock_guard lock(place_mutex_);
      places_.erase(call.pool);
    }
  }
  if (!unclear.ok()) return unclear;
  if (made.empty()) return failed;
  if (!failed.ok()) {
    RT_LOG(kWarning) << "pool " << call.pool
                     << ": some machines were not made: " << MessageOf(failed);
  }
  return made;
}

absl::StatusOr<std::vector<MadeMachine>> Ec2Provider::List() {
  RT_ASSIGN_OR_RETURN(const auto living, Living({}));
  std::vector<MadeMachine> machines;
  for (const auto& [number, instance] : living)
    machines.push_back({number, instance.id, instance.pool});
  const Millis before = SteadyClock() - 2 * options_.list_lag;
  std::lock_guard lock(mutex_);
  std::erase_if(made_, [&](const auto& one) { return one.second.at < before; });
  return machines;
}

absl::Status Ec2Provider::Terminate(const std::vector<std::string>& ids) {
  if (ids.empty()) return absl::OkStatus();
  RT_ASSIGN_OR_RETURN(auto instances, InstancesById(client_, ids));
  std::vector<std::string> ours, listed;
  for (const Ec2Instance& instance : instances) {
    const bool is_ours = IsOurs(instance);
    // The tags of an instance that ended may be gone before it is.
    if (!is_ours && instance.is_there())
      return MakeProviderError(ProviderError::kNotOurs,
                               "'" + instance.id + "' is not a machine of this cluster");
    listed.push_back(instance.id);
    if (instance.is_there()) ours.push_back(instance.id);
  }
  {
    std::lock_guard lock(mutex_);
    for (const auto& [number, made] : made_)
      if (Contains(ids, made.id) && !Contains(listed, made.id)) ours.push_back(made.id);
  }
  RT_RETURN_IF_ERROR(TerminateInstances(client_, ours));
  std::lock_guard lock(mutex_);
  std::erase_if(made_, [&](const auto& one) { return Contains(ours, one.second.id); });
  return absl::OkStatus();
}

void Ec2Provider::EndAll() {
  const Millis until = SteadyClock() + limits::kEc2EndMax;
  while (true) {
    std::vector<std::string> ids;
    const auto living = Living({});
    if (living.ok())
      for (const auto& [number, instance] : *living) ids.push_back(instance.id);
    {
      std::lock_guard lock(mutex_);
      for (const auto& [number, made] : made_) ids.push_back(made.id);
    }
    if (living.ok() && ids.empty()) return;
    const absl::Status status = living.ok() ? TerminateInstances(client_, ids) : living.status();
    if (status.ok()) {
      std::lock_guard lock(mutex_);
      made_.clear();
    }
    if (SteadyClock() >= until) {
      RT_LOG(kError) << ids.size() << " machines of the cluster may be left in " << client_.region()
                     << " (tag " << kEc2ClusterTag << "=" << options_.context.cluster_id
                     << "): " << MessageOf(status);
      return;
    }
    sleep_(kEndPoll);
  }
}

}  // namespace

std::string Ec2GroupName(const std::string& cluster_name) {
  return "ray-autoscaler-" + cluster_name;
}

std::string Ec2ClientToken(const std::string& cluster_id, uint64_t machine,
                           const LadderStep& step) {
  return Sha256Hex(cluster_id + "\n" + std::to_string(machine) + "\n" + step.instance_type + "\n" +
                   step.subnet.id + "\n" + (step.is_spot ? "spot" : "on-demand"));
}

std::unique_ptr<NodeProvider> MakeEc2Provider(Ec2ProviderOptions options) {
  return std::make_unique<Ec2Provider>(std::move(options));
}

}  // namespace rt
