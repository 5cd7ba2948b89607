#include "tests/bench/fleet.h"

#include <cstdio>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "head/core/desired.h"

namespace rt::bench {
namespace {

// Simulated time between two inputs: a node has its turn several times within its lease.
constexpr int64_t kInputEveryUs = 25;
// A node without news renews its lease this often.
constexpr Millis kRenewAfter = 700;

std::string SpecOf(const FleetOptions& options) {
  uint64_t rows = uint64_t{options.reports_per_trial} * options.rows_per_report;
  return R"({"experiment":"bench","command":["train","--lr","${lr}"],"num_samples":-1,)"
         R"("space":{"lr":{"loguniform":[1e-4,1e-1]},"width":{"choice":[64,128,256]}},)"
         R"("metric":"loss","mode":"min","seed":7,)"
         R"("scheduler":{"asha":{"max_t":)" + std::to_string(rows) +
         R"(,"grace_period":)" + std::to_string(std::max<uint64_t>(1, rows / 9)) +
         R"(,"reduction_factor":3}},"stop":{"training_iteration":)" + std::to_string(rows) +
         R"(},"max_concurrent":)" +
         std::to_string(options.max_concurrent ? options.nodes * options.slots : 0) + "}";
}

}  // namespace

Fleet::Fleet(FleetOptions options, Taken taken)
    : options_(std::move(options)), taken_(std::move(taken)) {}

Answer Fleet::Give(Kind kind, Input input) {
  now_us_ += kInputEveryUs;
  Outcome outcome = Step(core_, input, now());
  RT_CHECK_BECAUSE(outcome.verdict.ok(), outcome.verdict.ToString().c_str());
  Answer answer = outcome.answer;
  taken_(kind, input, now(), std::move(outcome));
  return answer;
}

void Fleet::SetUp() {
  Give(Kind::kSetUp, input::StartHead{"bench", "bench", "0"});
  for (uint32_t i = 0; i < options_.nodes; ++i) {
    const std::string token = "token" + std::to_string(i);
    Give(Kind::kSetUp, input::CreateToken{token, "worker", 3'600'000, ""});
    Answer answer = Give(Kind::kSetUp, input::UseToken{token, "node" + std::to_string(i)});
    nodes_.push_back({.id = answer.node});
    Sync(Kind::kSetUp, nodes_.back());
  }
  Give(Kind::kSetUp, input::CreateExperiment{.owner = "bench", .spec = SpecOf(options_),
                                             .results_root = options_.results_root});
  const uint32_t wanted = options_.nodes * options_.slots;
  while (core_.world.state.experiments.at({1}).trials.size() < wanted) {
    const size_t before = core_.world.state.seq;
    Give(Kind::kSetUp, input::Tick{});
    RT_CHECK(core_.world.state.seq > before);
  }
}

void Fleet::Refresh(Node& node) {
  std::map<Fence, Run> runs;
  for (const DesiredAttempt& desired : DesiredFor(core_.world, node.id)) {
    auto known = node.runs.find(desired.fence);
    Run run = known == node.runs.end() ? Run{.fence = desired.fence} : known->second;
    if (known == node.runs.end())
      run.quality = Rng(desired.fence.attempt.owner.number, desired.fence.attempt.number).Uniform();
    run.stop = run.stop || desired.stop;
    runs.emplace(desired.fence, run);
  }
  node.runs = std::move(runs);
}

void Fleet::Sync(Kind kind, Node& node) {
  input::Sync sync{.node = node.id, .incarnation = 1, .sync_seq = ++node.sync_seq};
  sync.inventory.resources = {.cpu = (options_.slots + 1) * kUnit, .memory = Bytes{64} << 30};
  sync.inventory.address = "10.0.0." + std::to_string(node.id.value);
  for (const auto& [fence, run] : node.runs) {
    Observed observed{.fence = fence, .phase = Observed::Phase::kPreparing};
    if (run.started) {
      observed.phase = run.exited ? Observed::Phase::kExited : Observed::Phase::kRunning;
      observed.pid = 1'000 + fence.attempt.owner.number;
      observed.last_seq = run.exited ? run.seq : 0;
    }
    sync.observed.push_back(std::move(observed));
  }
  node.synced_at = now();
  Give(kind, std::move(sync));
}

void Fleet::Report(Node& node, Run& run) {
  RowBatch batch{run.fence.attempt, 0, {}};
  for (uint32_t i = 0; i < options_.rows_per_report; ++i) {
    const auto step = static_cast<double>(++run.seq);
    const double loss = run.quality + 2 / (1 + step);
    char metrics[96];
    std::snprintf(metrics, sizeof metrics, R"({"loss":%.6f,"accuracy":%.4f,"epoch":%.0f})", loss,
                  1 / (1 + loss), step);
    batch.rows.push_back({run.seq, step, step * 0.5, now(), metrics});
  }
  Answer answer = Give(Kind::kReport, input::Report{node.id, {std::move(batch)}});
  RT_CHECK(!answer.verdicts.at(0).stale && answer.verdicts[0].acked_seq == run.seq);
  run.stop = answer.verdicts[0].stop;
}

void Fleet::RoundOf(Node& node) {
  Refresh(node);
  for (auto& [fence, run] : node.runs) {  // A daemon tells each start and each exit at once.
    if (run.started) continue;
    run.started = true;
    Sync(Kind::kStart, node);
  }
  for (auto& [fence, run] : node.runs) {
    if (fence.attempt.owner.is_job()) {
      run.stop = true;  // A job does one round's work and ends.
    } else {
      Report(node, run);
    }
  }
  for (auto& [fence, run] : node.runs) {
    if (!run.stop) continue;
    run.exited = true;
    Sync(Kind::kExit, node);
  }
  if (now() - node.synced_at > kRenewAfter) Sync(Kind::kRenewal, node);
}

void Fleet::Round() {
  ++rounds_;
  for (Node& node : nodes_) {
    RoundOf(node);
    if (Mix64(rounds_ * nodes_.size() + node.id.value) % 100 >= options_.jobs_percent) continue;
    Give(Kind::kPlacement, input::SubmitJob{
        "bench", R"({"name":"job","argv":["driver"],"resources":{"cpu":1}})",
        "job-" + std::to_string(++jobs_)});
  }
}

}  // namespace rt::bench
