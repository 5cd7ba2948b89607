// Workers without processes, for the benchmarks: they do what the core's state wants of them and
// send what daemons would send while a search runs. Deterministic: the same options give the same
// inputs. Every input is handed to the core at once, and the caller sees what became of it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "head/core/core.h"

namespace rt::bench {

struct FleetOptions {
  uint32_t nodes = 1'000;
  uint32_t slots = 10;              // Trials that run on a node at once.
  uint32_t rows_per_report = 1;
  uint32_t reports_per_trial = 27;  // Of a trial that early stopping spares.
  uint32_t jobs_percent = 10;       // Of the nodes: jobs submitted in one round.
  std::string results_root = "/results";
  bool max_concurrent = true;  // Else as many trials as the head proposes wait for nodes.
};

class Fleet {
 public:
  // What an input was; every kind but kSetUp takes effect by its name.
  enum class Kind { kSetUp, kReport, kStart, kPlacement, kExit, kRenewal };
  using Taken = std::function<void(Kind, const Input&, Millis now, Outcome)>;

  Fleet(FleetOptions options, Taken taken);
  // A head, the nodes, and an experiment whose first trials are placed.
  void SetUp();
  // Every running trial reports once; what was placed starts, and what was told to stop exits.
  void Round();

  const Core& core() const { return core_; }
  Millis now() const { return now_us_ / 1'000; }

 private:
  struct Run {
    Fence fence;
    bool started = false;
    bool stop = false;
    bool exited = false;
    uint64_t seq = 0;
    double quality = 0;
  };
  struct Node {
    NodeId id;
    uint64_t sync_seq = 0;
    Millis synced_at = 0;
    std::map<Fence, Run> runs;
  };

  Answer Give(Kind kind, Input input);
  void Sync(Kind kind, Node& node);
  void Refresh(Node& node);
  void Report(Node& node, Run& run);
  void RoundOf(Node& node);

  const FleetOptions options_;
  const Taken taken_;
  Core core_;
  std::vector<Node> nodes_;
  int64_t now_us_ = 1'700'000'000'000'000;
  uint64_t rounds_ = 0;
  uint64_t jobs_ = 0;
};

}  // namespace rt::bench
