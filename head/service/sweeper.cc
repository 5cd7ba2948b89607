#include "head/service/sweeper.h"

#include <chrono>
#include <future>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/run/failpoint.h"

namespace rt {
namespace {

constexpr size_t kTrialsPerTurn = 500;
constexpr Millis kLook = 1'000;  // How often the thread looks whether room is short.
// Hurried ones after something was refused: what is dead is so in the second, and old after three.
constexpr int kShortRounds = 6;
using Manifests = std::set<std::string>;

void AddRuns(const Runs& runs, Manifests& live) {
  for (const Checkpoint& checkpoint : runs.checkpoints) {
    live.insert(checkpoint.manifest);
    live.insert(checkpoint.shards.begin(), checkpoint.shards.end());
  }
  for (const RankOutputs& one : runs.outputs) live.insert(one.kept.manifest);
  if (const Attempt* attempt = runs.live())
    for (const CheckpointShard& shard : attempt->shards) live.insert(shard.manifest);
}

// Where the gathering goes on: all jobs and executors at once, then the experiments' trials.
struct Cursor {
  ExperimentId experiment;
  size_t trial = 0;
  bool begun = false;
  bool done = false;
};

void GatherExperiment(const Core& core, const Experiment& experiment, Manifests& live) {
  const ExperimentSpec& spec = core.world.index.experiments.at(experiment.id).spec;
  live.insert(spec.bundle);
  live.insert(experiment.trainable);
  for (const InputFile& input : spec.inputs) live.insert(input.manifest);
}

void GatherSome(const Core& core, Cursor& cursor, Manifests& live) {
  const State& state = core.world.state;
  if (!cursor.begun) {
    for (const auto& [id, job] : state.jobs) {
      AddRuns(job.runs, live);
      live.insert(core.world.index.jobs.at(id).spec.bundle);
    }
    for (const auto& [id, executor] : state.executors) AddRuns(executor.runs, live);
    for (const auto& [id, spec] : core.world.index.executors.specs) {
      live.insert(spec.program.bundle);
      for (const InputFile& input : spec.inputs) live.insert(input.manifest);
    }
    cursor.begun = true;
  }
  size_t left = kTrialsPerTurn;
  for (auto at = state.experiments.lower_bound(cursor.experiment); at != state.experiments.end();
       ++at) {
    const auto& [id, experiment] = *at;
    if (id != cursor.experiment) cursor = {.experiment = id, .begun = true};
    if (cursor.trial == 0) GatherExperiment(core, experiment, live);
    for (; cursor.trial < experiment.trials.size(); ++cursor.trial, --left) {
      if (left == 0) return;
      AddRuns(experiment.trials[cursor.trial].runs, live);
    }
    if (left > 0) --left;
  }
  cursor.done = true;
}

}  // namespace

BlobSweeper::BlobSweeper(HeadLoop& loop, SweptStore& store, SweepTimes times)
    : loop_(loop), store_(store), times_(times), thread_([this] { Work(); }) {}

BlobSweeper::~BlobSweeper() {
  {
    std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

absl::StatusOr<BlobSweeper::Live> BlobSweeper::Gather() {
  Live live;
  Cursor cursor;
  while (!cursor.done) {
    std::promise<absl::Status> read;
    loop_.Query(
        [&](const Core& core) {
          if (live.seq == 0) live.seq = core.world.state.seq;
          GatherSome(core, cursor, live.manifests);
        },
        [&read](absl::Status status) { read.set_value(std::move(status)); });
    RT_RETURN_IF_ERROR(read.get_future().get());
  }
  live.manifests.erase("");
  return live;
}

absl::Status BlobSweeper::RunOnce() {
  RT_ASSIGN_OR_RETURN(Live live, Gather());
  const bool is_short = store_.IsShortOfSpace();
  if (is_short) short_rounds_ = kShortRounds;
  idle_rounds_ = live.seq == swept_seq_ && !is_short ? idle_rounds_ + 1 : 0;
  swept_seq_ = live.seq;
  // What was retired last is dead in the second round, condemned there, and removed after its
  // grace: later rounds find nothing.
  if (idle_rounds_ > 2 * times_.grace / times_.every + 4) return absl::OkStatus();
  const bool first = !std::exchange(gathered_, true);
  const bool same = live.manifests == seen_before_;
  Manifests kept = live.manifests;
  kept.insert(seen_before_.begin(), seen_before_.end());
  seen_before_ = std::move(live.manifests);
  if (first) return absl::OkStatus();
  const bool hurries = short_rounds_ > 0;
  if (hurries) --short_rounds_;
  if (!same || !hurries) in_vain_ = 0;
  // What is full of what lives is looked through no more often than at rest: it costs calls.
  if (in_vain_ > 0 && in_vain_++ < times_.every / times_.every_when_short)
    return absl::OkStatus();
  const Millis grace = hurries ? std::min(times_.grace, times_.grace_when_short) : times_.grace;
  RT_RETURN_IF_ERROR(FailAt("head.sweep.after_mark"));
  RT_ASSIGN_OR_RETURN(Swept swept, store_.Sweep(kept, grace));
  const bool found = swept.bytes > 0 || swept.condemned > 0 || swept.waiting > 0;
  in_vain_ = hurries && same && !found ? 1 : 0;
  if (swept.bytes > 0) {
    RT_LOG(kInfo) << "swept " << swept.manifests << " manifests and " << swept.chunks
                  << " chunks, " << swept.bytes << " bytes, out of the checkpoint store";
  }
  return absl::OkStatus();
}

Millis BlobSweeper::NextRound() const {
  const bool is_short = short_rounds_ > 0 || store_.IsShortOfSpace();
  return is_short ? std::min(times_.every, times_.every_when_short) : times_.every;
}

void BlobSweeper::Work() {
  std::unique_lock lock(mutex_);
  Millis waited = 0;
  while (!ended_.wait_for(lock, std::chrono::milliseconds(kLook), [&] { return end_; })) {
    waited += kLook;
    store_.LookAgain();
    if (waited < NextRound()) continue;
    waited = 0;
    lock.unlock();
    if (absl::Status status = RunOnce(); !status.ok()) {
      RT_LOG(kWarning) << "the checkpoint store was not swept, and will be later: "
                       << MessageOf(status);
    }
    lock.lock();
  }
}

}  // namespace rt
