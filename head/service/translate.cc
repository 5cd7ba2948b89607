#include "head/service/translate.h"

#include <algorithm>

#include "common/base/limits.h"
#include "common/base/limits_elastic.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/digest.h"
#include "common/rpc/launch_wire.h"
#include "common/spec/resource_bounds.h"
#include "head/core/owner_policy.h"

namespace rt {
namespace {

// Of the bodies in one reply; the last one may be a whole spec more. Far below kMessageBytesMax.
constexpr size_t kBodiesBytesMax = 2u << 20;

// A node that lists more ranks or gpus than this is broken.
constexpr int kObservedMax = 10'000;
constexpr int kGpusMax = 1'024;
// The same of cpus and custom resources, in units, and of memory. The totals of 8 000 such nodes
// are still numbers of 64 bits.
constexpr int64_t kUnitsMax = 1'000'000'000 * kUnit;
constexpr Bytes kMemoryMax = Bytes{1} << 50;

// Bytes of one tree, as a worker counts them: far above what a manifest can list, and the sizes of
// all ranks of an attempt still fit into an int64.
constexpr Bytes kTreeBytesMax = Bytes{1} << 50;
// Other nodes with a replica of a checkpoint. A worker names one; more would only fill the state.
constexpr int kReplicaPeersMax = 16;
// Files that were left out, which only people read; the largest number that JSON readers keep.
constexpr uint64_t kLeftOutFilesMax = uint64_t{1} << 53;

Resources ResourcesFromWire(const v1::Resources& wire) {
  Resources resources;
  resources.cpu = wire.cpu();
  resources.gpu = wire.gpu();
  resources.memory = wire.memory();
  for (const auto& [name, units] : wire.custom())
    if (units != 0) resources.custom[name] = units;
  return resources;
}

absl::Status CheckNodeResources(const Resources& resources) {
  if (resources.gpu > kGpusMax * kUnit) return Invalid("too many gpus");
  bool negative = resources.cpu < 0 || resources.gpu < 0 || resources.memory < 0;
  bool large = resources.cpu > kUnitsMax || resources.memory > kMemoryMax;
  for (const auto& [name, units] : resources.custom) {
    negative = negative || units < 0;
    large = large || units > kUnitsMax;
    if (name.empty() || name.size() > 64)
      return Invalid("a node's resource has a name of 1 to 64 bytes, not '" + Excerpt(name) + "'");
  }
  if (negative) return Invalid("a node's resources cannot be negative");
  if (large)
    return Invalid("a node's resources are too large: at most 1e9 of each kind, and 1 PiB memory",
                   "correct --resources of its rt-worker");
  return absl::OkStatus();
}

// Before they are copied: each is compared at every placement and listed in every Status.
absl::Status CheckNodeNames(size_t count, const std::string& kind, const std::string& flag) {
  if (count <= limits::kNodeNamesMax) return absl::OkStatus();
  return Invalid("a node has " + std::to_string(count) + " " + kind + ", at most " +
                     std::to_string(limits::kNodeNamesMax) + " are allowed",
                 "give its rt-worker fewer with " + flag);
}

absl::StatusOr<NodeInventory> InventoryFromWire(const v1::Inventory& wire) {
  if (wire.gpus_size() > kGpusMax) return Invalid("too many gpus");
  RT_RETURN_IF_ERROR(CheckSize("inventory", wire.ByteSizeLong(), limits::kSpecBytesMax));
  RT_RETURN_IF_ERROR(
      CheckNodeNames(wire.resources().custom().size(), "custom resources", "--resources"));
  RT_RETURN_IF_ERROR(CheckNodeNames(wire.labels().size(), "labels", "--labels"));
  NodeInventory inventory;
  inventory.address = wire.address();
  inventory.resources = ResourcesFromWire(wire.resources());
  RT_RETURN_IF_ERROR(CheckNodeResources(inventory.resources));
  inventory.labels = {wire.labels().begin(), wire.labels().end()};
  for (const auto& gpu : wire.gpus())
    inventory.gpus.push_back({gpu.uuid(), gpu.index(), gpu.name(), gpu.memory(), gpu.trouble(),
                              gpu.quarantine(), gpu.island(), gpu.by_hand()});
  inventory.version = wire.version();
  inventory.boot_id = wire.boot_id();
  inventory.pid = wire.pid();
  inventory.state_dir = wire.state_dir();
  return inventory;
}

absl::Status CheckOwner(const Owner& owner) {
  if (FindPolicy(owner.kind) == nullptr)
    return Invalid("an owner is a trial, a job or an executor");
  if (owner.group == 0) return Invalid("an owner needs its number");
  return absl::OkStatus();
}

absl::StatusOr<Observed> ObservedFromWire(std::string_view bytes) {
  RT_ASSIGN_OR_RETURN(Observed observed, DecodeObserved(bytes));
  RT_RETURN_IF_ERROR(CheckOwner(observed.fence.attempt.owner));
  const auto phase = static_cast<int>(observed.phase);
  if (phase < 1 || phase > 3) return Invalid("unknown phase");
  if (observed.port > 65'535) return Invalid("no such port");
  observed.reason = ValidUtf8(observed.reason, limits::kReasonBytesMax);
  observed.gpu_fault = ValidUtf8(observed.gpu_fault, limits::kReasonBytesMax);
  observed.error.kind = ValidUtf8(observed.error.kind, limits::kNameBytesMax);
  observed.error.message = ValidUtf8(observed.error.message, limits::kErrorBytesMax);
  observed.error.traceback = ValidUtf8(observed.error.traceback, limits::kErrorBytesMax);
  return observed;
}

absl::Status CheckTreeBytes(const std::string& what, Bytes bytes) {
  if (bytes >= 0 && bytes <= kTreeBytesMax) return absl::OkStatus();
  return Invalid("the size of " + what + " is " + std::to_string(bytes) +
                 " bytes; it must be 0 to " + std::to_string(kTreeBytesMax));
}

}  // namespace

absl::Status CheckSize(std::string_view name, size_t bytes, size_t bytes_max) {
  if (bytes <= bytes_max) return absl::OkStatus();
  return Invalid(std::string(name) + " is " + std::to_string(bytes) + " bytes; at most " +
                 std::to_string(bytes_max) + " are allowed");
}

absl::StatusOr<Owner> FromWire(const v1::Owner& wire) {
  Owner owner{static_cast<Owner::Kind>(wire.kind()), wire.group(), wire.number()};
  if (static_cast<uint32_t>(owner.kind) != wire.kind()) owner.kind = Owner::Kind::kNone;
  RT_RETURN_IF_ERROR(CheckOwner(owner));
  return owner;
}

absl::StatusOr<Fence> FromWire(const v1::Fence& wire) {
  Fence fence;
  RT_ASSIGN_OR_RETURN(fence.attempt.owner, FromWire(wire.attempt().owner()));
  fence.attempt.number = wire.attempt().number();
  fence.attempt.generation = wire.attempt().generation();
  fence.rank = wire.rank();
  return fence;
}

Row FromWire(const v1::Row& wire) {
  return {wire.seq(), wire.iteration(), wire.time_total_s(), wire.timestamp(), wire.metrics()};
}

v1::Fence ToWire(const Fence& fence) {
  v1::Fence wire;
  auto* owner = wire.mutable_attempt()->mutable_owner();
  owner->set_kind(static_cast<uint32_t>(fence.attempt.owner.kind));
  owner->set_group(fence.attempt.owner.group);
  owner->set_number(fence.attempt.owner.number);
  wire.mutable_attempt()->set_number(fence.attempt.number);
  wire.mutable_attempt()->set_generation(fence.attempt.generation);
  wire.set_rank(fence.rank);
  return wire;
}

namespace {

absl::StatusOr<std::vector<GpuSample>> SamplesFromWire(const v1::SyncRequest& request) {
  std::vector<GpuSample> samples;
  if (request.gpu_samples_size() > kGpusMax) return Invalid("too many gpus in one Sync");
  for (const std::string& bytes : request.gpu_samples()) {
    RT_ASSIGN_OR_RETURN(GpuSample sample, DecodeGpuSample(bytes));
    if (sample.processes.size() > limits::kGpuProcessesMax)
      sample.processes.resize(limits::kGpuProcessesMax);
    sample.uuid = ValidUtf8(sample.uuid, limits::kNameBytesMax);
    for (GpuProcess& process : sample.processes) {
      process.name = ValidUtf8(process.name, limits::kNameBytesMax);
      process.attempt = ValidUtf8(process.attempt, limits::kNameBytesMax);
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

// A profile that says something impossible is left out: the worker has checked what it took.
absl::StatusOr<std::vector<ProfileReport>> ProfilesFromWire(const v1::SyncRequest& request) {
  std::vector<ProfileReport> profiles;
  if (request.profiles_size() > limits::kProfilesOfNodeMax)
    return Invalid("too many profiles in one Sync");
  for (const std::string& bytes : request.profiles()) {
    RT_ASSIGN_OR_RETURN(ProfileReport report, DecodeProfile(bytes));
    RT_RETURN_IF_ERROR(CheckOwner(report.fence.attempt.owner));
    if (!CheckProfile(report.profile).ok()) continue;
    for (StepPoint& point : report.profile.points)
      point.gpu_type = ValidUtf8(point.gpu_type, limits::kGpuTypeBytesMax);
    profiles.push_back(std::move(report));
  }
  return profiles;
}

}  // namespace

absl::StatusOr<input::Sync> SyncFromWire(const v1::SyncRequest& request, NodeId node) {
  RT_RETURN_IF_ERROR(CheckSize("a Sync", request.ByteSizeLong(), limits::kMessageBytesMax));
  if (request.observed_size() > kObservedMax) return Invalid("too many ranks in one Sync");
  if (request.incarnation() == 0 || request.sync_seq() == 0)
    return Invalid("a Sync needs an incarnation and a sync_seq");
  input::Sync sync;
  sync.node = node;
  sync.incarnation = request.incarnation();
  sync.sync_seq = request.sync_seq();
  RT_ASSIGN_OR_RETURN(sync.inventory, InventoryFromWire(request.inventory()));
  sync.inventory.incarnation = sync.incarnation;
  for (const std::string& bytes : request.observed()) {
    RT_ASSIGN_OR_RETURN(Observed observed, ObservedFromWire(bytes));
    sync.observed.push_back(std::move(observed));
  }
  RT_ASSIGN_OR_RETURN(sync.gpu_samples, SamplesFromWire(request));
  RT_ASSIGN_OR_RETURN(sync.profiles, ProfilesFromWire(request));
  sync.draining = request.draining();
  sync.drain_reason = ValidUtf8(request.drain_reason(), limits::kReasonBytesMax);
  const bool is_near = request.drain_for_ms() > 0 && request.drain_for_ms() <= limits::kDrainMax;
  sync.drain_for = is_near ? request.drain_for_ms() : 0;
  sync.away_for = std::max<Millis>(0, request.away_for_ms());
  sync.fault = ValidUtf8(request.trouble(), limits::kReasonBytesMax);
  sync.seen_epoch = request.seen_epoch();
  sync.seen_seq = request.seen_seq();
  if (static_cast<size_t>(request.outputs_size()) > limits::kOutputsWaitingMax)
    return Invalid("too many outputs in one Sync");
  for (const auto& wire : request.outputs()) {
    RT_ASSIGN_OR_RETURN(const Fence fence, FromWire(wire));
    sync.outputs.insert(fence);
  }
  return sync;
}

absl::StatusOr<input::CommitCheckpoint> CommitFromWire(const v1::CommitCheckpointRequest& request,
                                                       NodeId node) {
  RT_ASSIGN_OR_RETURN(const Fence fence, FromWire(request.fence()));
  RT_RETURN_IF_ERROR(CheckSize("a row", request.row().metrics().size(), limits::kMetricsBytesMax));
  if (!IsDigest(request.manifest())) return Invalid("the checkpoint's manifest is not a digest");
  RT_RETURN_IF_ERROR(CheckTreeBytes("the checkpoint", request.bytes()));
  if (request.peers_size() > kReplicaPeersMax)
    return Invalid("at most " + std::to_string(kReplicaPeersMax) +
                   " other nodes may have a replica of a checkpoint");
  std::vector<NodeId> replicas;
  if (request.held()) {
    replicas.push_back(node);
    for (uint64_t peer : request.peers()) replicas.push_back(NodeId{peer});
  }
  return input::CommitCheckpoint{node,
                                 fence,
                                 request.manifest(),
                                 FromWire(request.row()),
                                 request.bytes(),
                                 request.together(),
                                 request.seen_epoch(),
                                 request.incarnation(),
                                 std::move(replicas)};
}

absl::StatusOr<KeptOutputs> OutputsFromWire(const v1::KeepOutputsRequest& request) {
  if (!request.manifest().empty() && !IsDigest(request.manifest()))
    return Invalid("the outputs' manifest is not a digest");
  const int named = std::max(request.paths_size(), request.left_out_size());
  if (named > static_cast<int>(limits::kOutputNamesMax)) return Invalid("too many paths");
  RT_RETURN_IF_ERROR(CheckTreeBytes("the outputs", request.bytes()));
  if (request.files() > limits::kOutputFilesMax)
    return Invalid(std::to_string(request.files()) + " files of outputs; at most " +
                   std::to_string(limits::kOutputFilesMax) + " are kept");
  if (request.left_out_files() > kLeftOutFilesMax || request.left_out_bytes() < 0)
    return Invalid("the files that were left out have no such number or size");
  KeptOutputs outputs{.manifest = request.manifest(),
                      .files = request.files(),
                      .bytes = request.bytes(),
                      .left_out_files = request.left_out_files(),
                      // A sparse file can look larger than any disk.
                      .left_out_bytes = std::min<Bytes>(request.left_out_bytes(), kTreeBytesMax)};
  for (const std::string& path : request.paths()) {
    RT_RETURN_IF_ERROR(CheckSize("a path", path.size(), limits::kPathBytesMax));
    outputs.paths.push_back(path);
  }
  for (const auto& wire : request.left_out()) {
    RT_RETURN_IF_ERROR(CheckSize("a path", wire.path().size(), limits::kPathBytesMax));
    RT_RETURN_IF_ERROR(CheckSize("a reason", wire.reason().size(), limits::kReasonBytesMax));
    if (wire.bytes() < 0) return Invalid("the size of a file that was left out is below 0");
    outputs.left_out.push_back({wire.path(), wire.bytes(), wire.reason()});
  }
  return outputs;
}

absl::StatusOr<input::Report> ReportFromWire(const v1::ReportRequest& request, NodeId node) {
  RT_RETURN_IF_ERROR(CheckSize("a Report", request.ByteSizeLong(), limits::kMessageBytesMax));
  input::Report report;
  report.node = node;
  report.seen_epoch = request.seen_epoch();
  report.incarnation = request.incarnation();
  size_t rows = 0;
  for (const auto& wire : request.batches()) {
    rows += static_cast<size_t>(wire.rows_size());
    if (rows > limits::kReportRowsMax) return Invalid("too many rows in one Report");
    v1::Fence fence;
    *fence.mutable_attempt() = wire.attempt();
    RT_ASSIGN_OR_RETURN(Fence checked, FromWire(fence));
    RowBatch batch;
    batch.attempt = checked.attempt;
    batch.rank = wire.rank();
    batch.rows.reserve(static_cast<size_t>(wire.rows_size()));
    for (const auto& row : wire.rows()) {
      RT_RETURN_IF_ERROR(CheckSize("a row", row.metrics().size(), limits::kMetricsBytesMax));
      batch.rows.push_back(FromWire(row));
    }
    report.batches.push_back(std::move(batch));
  }
  if (static_cast<size_t>(request.saved_size()) > rows)
    return Invalid("more checkpoints than rows in one Report");
  for (const auto& saved : request.saved()) {
    RT_ASSIGN_OR_RETURN(Fence fence, FromWire(saved.fence()));
    report.rows_with_checkpoint.insert({fence, saved.seq()});
  }
  return report;
}

void FillReply(const SyncReply& from, v1::SyncReply* reply) {
  reply->set_epoch(from.epoch);
  reply->set_version(from.version);
  reply->set_hold_ms(from.hold);
  reply->set_durable_seq(from.durable_seq);
  reply->set_newest_incarnation(from.newest_incarnation);
  reply->set_newest_seq(from.newest_seq);
  for (const ClearedGpu& cleared : from.cleared_gpus) {
    v1::ClearedGpu* added = reply->add_cleared_gpus();
    added->set_uuid(cleared.uuid);
    added->set_quarantine(cleared.quarantine);
  }
  for (const FaultyGpu& faulty : from.faulty_gpus) {
    v1::FaultyGpu* added = reply->add_faulty_gpus();
    added->set_uuid(faulty.uuid);
    added->set_what(faulty.what);
  }
  std::map<Fence, const LaunchSpec*> bodies;
  for (const auto& body : from.bodies) bodies[body.fence] = &body;
  size_t bytes = 0;
  for (const auto& desired : from.desired) {
    auto* added = reply->add_desired();
    *added->mutable_fence() = ToWire(desired.fence);
    added->set_stop(desired.stop);
    added->set_suspend(desired.suspend);
    added->set_move(desired.evict);
    if (desired.evict_by != 0)
      added->set_move_for_ms(std::max<Millis>(1, desired.evict_by - from.now));
    added->set_judged_seq(desired.decided_seq);
    added->set_whole_seq(desired.complete_seq);
    added->set_profile_seq(desired.profile_seq);
    added->set_freeze(desired.freeze);
    if (desired.start_after.owner.kind != Owner::Kind::kNone)
      *added->mutable_after() = ToWire(Fence{desired.start_after, 0});
    // The worker asks again for an attempt that came without its body.
    auto body = bodies.find(desired.fence);
    if (body == bodies.end() || bytes > kBodiesBytesMax) continue;
    added->set_body(EncodeLaunch(*body->second));
    bytes += added->body().size();
  }
}

void FillReply(const std::vector<ReportVerdict>& from, v1::ReportReply* reply) {
  for (const auto& verdict : from) {
    auto* added = reply->add_verdicts();
    *added->mutable_fence() = ToWire(verdict.fence);
    added->set_stale(verdict.stale);
    added->set_acked_seq(verdict.acked_seq);
    added->set_stop(verdict.stop);
    added->set_stop_seq(verdict.stop_seq);
    added->set_reason(verdict.reason);
    added->set_pause(verdict.suspend);
  }
}

absl::StatusOr<input::ResumeExperiment::TrialAction> TrialActionFrom(const std::string& name) {
  using TrialAction = input::ResumeExperiment::TrialAction;
  if (name == "keep") return TrialAction::kLeave;
  if (name == "retry") return TrialAction::kResume;
  if (name == "restart") return TrialAction::kRestart;
  return Invalid("'" + name + "' is none of keep, retry and restart");
}

}  // namespace rt
