// What `rt doctor` looks at. Each check says ok, warn or fail, and for the last two what to do
// about it. Checks of this machine need no cluster; those of a cluster need its head.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "cli/client/head_client.h"
#include "cli/client/home.h"
#include "common/base/json.h"
#include "common/base/time.h"

namespace rt {

struct Finding {
  enum class Grade { kOk, kWarn, kFail };
  std::string check;  // programs, disks, cgroup, …
  Grade grade = Grade::kOk;
  std::string message;
  std::string hint;  // What to do; empty when it is ok.
};
const char* GradeName(Finding::Grade grade);  // ok, warn, fail

std::vector<Finding> ExamineMachine(const Home& home);
// The certificate, the port, the clocks, the versions and the nodes. Blocks for some seconds when
// nobody answers.
std::vector<Finding> ExamineCluster(const Home& home, const std::string& name);

// What to do where the driver, or a gpu, does not answer.
inline constexpr char kGpuHangHint[] =
    "rt node show NODE names a gpu about which NVML does not answer; reset it, or boot the machine";

// Runs rt-probe on the gpus of this machine, which takes seconds and most of their free memory.
// `probe`: its report; null when there is none. A gpu that hangs never answers, so each program may
// take `most`.
std::vector<Finding> ExamineGpus(Json& probe, Millis most = 120'000);
// Uuids of the cluster's gpus that attempts hold now; none when the head does not answer.
std::set<std::string> GpusInUse(const Home& home, const std::string& name);
// Tells the head what the probe found. A gpu that is well leaves quarantine, where a probe may end
// it. A gpu at fault is quarantined, unless it is in `used`, the gpus that were in use before the
// probe: work on a gpu disturbs its probe.
std::vector<Finding> TellCluster(const Home& home, const std::string& name, const Json& probe,
                                 std::set<std::string> used);

// Pure parts, for tests.
std::vector<Finding> JudgeProbe(const Json& report);
// What the probe measured on this gpu; "" when it found a fault or did not test it.
std::string WhatIsWell(const Json& report, const std::string& uuid);
// The fault of this gpu itself; "" when the probe found none or did not test it.
std::string FaultOf(const Json& report, const std::string& uuid);
Finding JudgeDisk(const std::string& path, double free_bytes, double total_bytes);
Finding JudgeClock(double ahead_s, double round_trip_s);
Finding JudgeCertificate(const std::string& whose, double seconds_left);
Finding JudgeNode(const Json& node, const std::string& version);
// `answered`: what is said of a port that is well.
Finding JudgePort(const Json& cluster, const std::string& answered);
Finding JudgeStore(const Json& status);
Finding JudgeHistory(const Json& status);

}  // namespace rt
