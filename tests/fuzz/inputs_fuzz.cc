// Bytes as a course of inputs for the core. Whatever comes, the invariants hold, every event is
// written to bytes and read back the same, and a shadow that only replays the events is, at the
// end, byte for byte in the same state.
#include <algorithm>

#include "common/base/check.h"
#include "head/core/core.h"
#include "head/journal/codec.h"
#include "tests/fuzz/bytes.h"

namespace rt::fuzz {
namespace {

constexpr size_t kInputsMax = 64;

const char* const kSpecs[] = {
    R"({"experiment":"e","command":["t"],"metric":"loss","mode":"min","num_samples":3,
        "space":{"x":{"uniform":[0,1]}},"stop":{"training_iteration":3}})",
    R"({"experiment":"e","command":["t"],"metric":"loss","mode":"max","num_samples":4,
        "scheduler":{"asha":{"max_t":9,"grace_period":1,"reduction_factor":3}},
        "max_concurrent":2,"max_failures":1})",
    R"({"experiment":"e","command":["t"],"space":{"g":{"grid":[1,2]}},"time_budget":5,
        "resources":{"cpu":2},"checkpoints":{"num_to_keep":1,"score_attribute":"loss"}})",
    R"({"experiment":"e","command":["t"],"fail_fast":true,"num_samples":2,
        "resources":{"cpu":1,"gpu":0.5}})",
    R"({"experiment":"e","command":["t"],"metric":"loss","mode":"min","num_samples":4,
        "space":{"x":{"uniform":[0,1]}},"search":{"tpe":{"startup_trials":1}}})",
};
const char* const kMetrics[] = {R"({"loss":0.5})", R"({"loss":"NaN"})", R"({"loss":2,"a":{"b":1}})",
                                "{}", R"({"loss":"text"})"};

class Course {
 public:
  explicit Course(Bytes bytes) : bytes_(bytes) {
    Give(input::StartHead{"cluster", "fuzz", "0"});
    for (const char* name : {"a", "b"}) {
      Give(input::CreateToken{name, "worker", 60'000, ""});
      nodes_.push_back(Give(input::UseToken{name, name}).node);
    }
  }

  void Run() {
    for (size_t i = 0; i < kInputsMax && !bytes_.done(); ++i) {
      now_ += static_cast<Millis>(bytes_.Below(8)) * 300;
      Give(Next());
    }
    RT_CHECK(CanonicalDump(shadow_.state) == CanonicalDump(core_.world.state));
    auto state = DecodeState(EncodeState(core_.world.state));
    RT_CHECK(state.ok() && CanonicalDump(*state) == CanonicalDump(core_.world.state));
  }

 private:
  Answer Give(const Input& input) {
    Outcome outcome = Step(core_, input, now_);
    for (const Record& record : outcome.records) {
      auto read = DecodeRecord(EncodeRecord(record));
      RT_CHECK(read.ok());
      Apply(shadow_, *read);
    }
    CheckInvariants(core_);
    return outcome.answer;
  }

  ExperimentId AnyExperiment() { return {1 + bytes_.Below(4)}; }
  TrialId AnyTrial() { return {AnyExperiment(), static_cast<uint32_t>(bytes_.Below(5))}; }
  Fence AnyFence() {
    const Owner owner = bytes_.Below(8) == 0 ? Owner::Of(JobId{1 + bytes_.Below(3)})
                                             : Owner::Of(AnyTrial());
    return {{owner, static_cast<uint32_t>(bytes_.Below(4)), 1},
            static_cast<uint32_t>(bytes_.Below(2))};
  }
  NodeId AnyNode() { return nodes_[bytes_.Below(nodes_.size())]; }
  Row AnyRow(uint64_t seq) {
    Row row{.seq = seq, .iteration = static_cast<double>(bytes_.Below(12))};
    row.timestamp = now_;
    row.metrics = kMetrics[bytes_.Below(5)];
    return row;
  }

  Input AnySync() {
    input::Sync sync;
    sync.node = AnyNode();
    sync.incarnation = sync.inventory.incarnation = 1 + bytes_.Below(2);
    sync.sync_seq = ++sync_seq_;
    sync.inventory.resources.cpu = static_cast<int64_t>(bytes_.Below(4)) * kUnit;
    sync.inventory.resources.gpu = static_cast<int64_t>(bytes_.Below(2)) * kUnit;
    if (sync.inventory.resources.gpu > 0) sync.inventory.gpus.push_back({"gpu", 0, "fake", 0});
    sync.draining = bytes_.Below(8) == 1;
    sync.away_for = bytes_.Below(16) == 1 ? 5'000 : 0;
    sync.drain_for = 2'000;
    for (uint64_t left = bytes_.Below(4); left > 0; --left) {
      Observed& observed = sync.observed.emplace_back();
      observed.fence = AnyFence();
      observed.phase = static_cast<Observed::Phase>(1 + bytes_.Below(3));
      observed.pid = bytes_.Below(3);
      observed.exit_code = static_cast<int32_t>(bytes_.Below(3));
      observed.signal = bytes_.Below(4) == 0 ? 9 : 0;
      observed.witnessed = bytes_.Chance();
      observed.suspended = bytes_.Chance();
      observed.launch_failed = bytes_.Below(8) == 0;
      observed.last_seq = bytes_.Below(5);
    }
    return sync;
  }
  Input AnyReport() {
    input::Report report{AnyNode(), {}};
    for (uint64_t left = 1 + bytes_.Below(2); left > 0; --left) {
      const Fence fence = AnyFence();
      RowBatch& batch = report.batches.emplace_back(RowBatch{fence.attempt, fence.rank, {}});
      uint64_t seq = bytes_.Below(6);
      for (uint64_t rows = bytes_.Below(4); rows > 0; --rows) batch.rows.push_back(AnyRow(seq++));
    }
    return report;
  }
  std::string Key() { return bytes_.Chance() ? "key-" + std::to_string(bytes_.Below(3)) : ""; }

  input::ResumeExperiment AnyResume() {
    using TrialAction = input::ResumeExperiment::TrialAction;
    const uint64_t drawn = bytes_.Below(27);
    return {AnyExperiment(), static_cast<TrialAction>(drawn % 3),
            static_cast<TrialAction>(drawn / 3 % 3), static_cast<TrialAction>(drawn / 9)};
  }

  // What a lane says: mostly about the next trial of this head, and sometimes about another.
  Input AnyProposal() {
    const State& state = core_.world.state;
    input::LaneAnswered answered{.experiment = AnyExperiment(), .epoch = state.epoch};
    const auto known = state.experiments.find(answered.experiment);
    const size_t made = known == state.experiments.end() ? 0 : known->second.trials.size();
    answered.from = static_cast<uint32_t>(bytes_.Below(4) == 0 ? bytes_.Below(4) : made);
    if (bytes_.Below(8) == 0) --answered.epoch;
    answered.observed_through = state.seq + bytes_.Below(3) - std::min<uint64_t>(1, state.seq);
    for (uint64_t left = 1 + bytes_.Below(3); left > 0; --left)
      answered.points.push_back({R"({"x":0.)" + std::to_string(bytes_.Below(10)) + "}",
                                 bytes_.Below(4) == 0 ? "it threw" : ""});
    return answered;
  }

  Input Next() {
    switch (bytes_.Below(21)) {
      case 0:
        return input::CreateExperiment{"ann", JobId{bytes_.Below(2)}, kSpecs[bytes_.Below(5)],
                                       Key(), bytes_.Byte(),          "/results"};
      case 1:
        return input::SubmitJob{"ann", R"({"name":"j","argv":["p"]})", Key()};
      case 2:
        return input::StopExperiment{AnyExperiment(), "why"};
      case 3:
        return input::StopTrial{AnyTrial(), "why"};
      case 4:
        return input::StopJob{JobId{1 + bytes_.Below(3)}, "why"};
      case 5:
        return input::PauseExperiment{AnyExperiment(), "why"};
      case 6:
        return AnyResume();
      case 7:
        return input::ExtendExperiment{AnyExperiment(), static_cast<int64_t>(bytes_.Below(3)) - 1,
                                       static_cast<Millis>(bytes_.Below(3)) * 1'000};
      case 8:
        return input::PauseTrial{AnyTrial(), PauseCause::kUser, "why"};
      case 9:
        return input::ResumeTrial{AnyTrial()};
      case 10:
        return input::RetryTrial{AnyTrial(), bytes_.Chance()};
      case 11:
        return input::CommitCheckpoint{AnyNode(), AnyFence(), "m" + std::to_string(bytes_.Below(3)),
                                       AnyRow(bytes_.Below(5)), 10};
      case 12:
        return input::SinksFlushed{core_.world.state.seq};
      case 13:
        if (bytes_.Chance()) return input::DaemonEnded{bytes_.Chance() ? "n1" : "n2"};
        return input::Disconnected{AnyNode(), 1 + bytes_.Below(2)};
      case 14:
        switch (bytes_.Below(8)) {
          case 0: return input::RemoveNode{AnyNode(), "why"};
          case 1: return input::ForgetNode{AnyNode(), "why"};
          default: return input::Tick{};
        }
      case 15:
      case 16:
        return AnyReport();
      case 17: return AnyProposal();
      default:
        return AnySync();
    }
  }

  Bytes bytes_;
  Core core_;
  World shadow_;
  Millis now_ = 1'700'000'000'000;
  uint64_t sync_seq_ = 0;
  std::vector<NodeId> nodes_;
};

}  // namespace
}  // namespace rt::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rt::fuzz::Course(rt::fuzz::Bytes(data, size)).Run();
  return 0;
}
