// The preflight of an attempt: rt-probe tests the gpus that the attempt holds on this node before
// any of its programs starts there (docs/gpus.md). The ranks of one node hold them together, so the
// first rank that asks runs the probe, and the others get the same answer. The nodes of a gang over
// nodes run one probe each. The probes meet at the gang's own address and port for an all-reduce
// over all of its gpus (worker/gpu/probe/meeting.h). Thread-safe; Ask blocks for at most `most`, of
// a gang over nodes for 2 * most + kPreflightMeetMax + kPreflightLinksMax, and belongs on a pool.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/limits.h"
#include "common/run/subprocess.h"
#include "common/spec/observed.h"
#include "worker/launch/launch_body.h"

namespace rt::worker {

struct PreflightFault {
  std::string uuid, what;
  friend bool operator==(const PreflightFault&, const PreflightFault&) = default;
};
struct PreflightResult {
  std::vector<PreflightFault> faults;  // Of gpus that should take no work.
  // Why the test could not be made, or what is too slow; no gpu is to blame.
  std::string error;
  // The machine's failure, although none of these gpus is to blame: another node of the gang has
  // found a gpu of its at fault, or `slow_links` are.
  std::string elsewhere;
  std::vector<ObservedLink> slow_links;  // Of the gang.
  double bus_gbps = 0;  // Between the nodes of a gang, which are well; 0: it was not measured.
  bool is_well() const { return faults.empty() && error.empty() && elsewhere.empty(); }
};

// How rt-probe ended (DeadlineExceeded: it did not), and the report that it wrote (OutOfRange: too
// much).
struct ProbeRun {
  absl::StatusOr<ProgramResult> end = ProgramResult{};
  absl::StatusOr<std::string> report = "";
};
// What a run of rt-probe says of these gpus, which it was given in this order. Where the probe
// names none of them, wrong sums of the all-reduce between them, one that does not end, and a probe
// that hangs or crashes are a fault of all of them; an all-reduce that is too slow is an error. A
// fault of the all-reduce across nodes is an error, because it may lie with any node or between
// them, unless the probes have found the link that is to blame. Pure.
PreflightResult JudgePreflight(const std::vector<std::string>& uuids, const ProbeRun& run,
                               double min_bus_gbps);

class Preflights {
 public:
  explicit Preflights(std::string bin_dir, Millis most = limits::kPreflightMax,
                      Millis meet_max = limits::kPreflightMeetMax)
      : bin_dir_(std::move(bin_dir)), most_(most), meet_max_(meet_max) {}

  // Whether this rank's gpus are to be tested: it holds some, and whole ones.
  static bool IsFor(const LaunchBody& body);
  // `done` is called once: at the end of Ask, or of the Ask of another rank that runs the probe.
  // `report`: a path of this rank's own for rt-probe's report.
  using Done = std::function<void(const PreflightResult&)>;
  void Ask(const LaunchBody& body, const std::string& report, Done done);
  // What its attempt's preflight found out about the links between its nodes.
  void AddLinks(Observed& observed) const;
  // A rank is over, and with it what its attempt's gpus were found to be.
  void Forget(const Fence& fence);

 private:
  struct Test {
    std::optional<PreflightResult> result;
    std::vector<Done> waiting;
  };
  PreflightResult Run(const LaunchBody& body, const std::string& report) const;

  const std::string bin_dir_;
  const Millis most_, meet_max_;
  mutable std::mutex mutex_;
  std::map<AttemptId, Test> tests_;
};

}  // namespace rt::worker
