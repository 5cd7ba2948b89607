// The parts of `rt submit`: what is submitted, and the three ways to run it.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cli/commands/common.h"
#include "cli/teardown.h"
#include "common/run/find_program.h"
#include "common/yaml/experiment_file.h"

namespace rt {

// A script that runs on several ranks, as torchrun would start it.
struct RankPlan {
  int64_t nodes = 1;
  int64_t ranks_per_node = 1;
  int64_t max_restarts = 0;  // Of all ranks, after a failure of one.
  Json resources;            // Of each rank, as ParseResourceRequest takes them.
  int64_t ranks_min = 0, ranks_max = 0;  // Of an elastic one; both 0: its number is fixed.
  bool is_elastic() const { return ranks_max != 0; }
  // With which it begins.
  int64_t ranks() const { return is_elastic() ? ranks_min : nodes * ranks_per_node; }
};
// nullopt: the invocation asks for none.
absl::StatusOr<std::optional<RankPlan>> ReadRankPlan(const Invocation& invocation);

// The resources of a job, in the form that ParseResourceRequest takes. The default is no cpu.
absl::StatusOr<Json> ReadJobResources(const Invocation& invocation);

struct Submission {
  std::string script;                   // As typed.
  std::vector<std::string> arguments;   // Of the script, exactly.
  std::vector<std::string> argv;        // Of the job: interpreter, script, arguments.
  std::optional<ExperimentFile> experiment;  // Set when the script is an experiment YAML.
  std::optional<RankPlan> ranks;             // Set when it runs on several ranks.
  Json resources;                            // Of a job.
};

// Snapshots the working directory into the head's store; the bundle's digest. `verbose`: says on
// standard error how much travelled.
absl::StatusOr<std::string> PushWorkingDirectory(HeadClient& client, const Home& home,
                                                 std::vector<std::string> exclude,
                                                 bool verbose);
// The job's argv: the script below the bundle's root when it is there, absolute otherwise. An error
// names what is missing.
absl::StatusOr<std::vector<std::string>> ArgvOf(const Submission& submission);
// SIGINT must be blocked (BlockInterrupts) before the first thread starts.
void BlockInterrupts();
// What Ctrl-C does: at first it ends this process with 130 (nothing was accepted yet; a watcher
// cleans up). While a reaction is set, the first Ctrl-C runs that on a thread of its own, and the
// second one ends the process.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  // `reaction` is used until Clear, which waits for it to return.
  void React(std::function<void()> reaction);
  void Clear();
  bool happened() const { return happened_; }

 private:
  void Run();
  std::mutex mutex_;
  std::function<void()> reaction_;
  std::thread running_;
  std::atomic<bool> happened_ = false, done_ = false;
  std::thread thread_;
};

// The work that the head has accepted from one `rt submit`. The handler of Ctrl-C and the watcher
// of --stop (null without --stop) are told of it.
struct Attendance {
  Interrupts& interrupts;
  Watcher* watcher;
  uint64_t job = 0, experiment = 0;  // 0: nothing was accepted yet.
};
// Each returns the exit code of the command once the work is accepted.
ExitCode SubmitJob(HeadClient& client, const Home& home, const Invocation& invocation,
                   const Submission& submission, Attendance& attendance);
ExitCode SubmitExperiment(HeadClient& client, const Home& home, const Invocation& invocation,
                          const Submission& submission, Attendance& attendance);
ExitCode SubmitRanks(HeadClient& client, const Home& home, const Invocation& invocation,
                     const Submission& submission, Attendance& attendance);
// Stops the experiment after Ctrl-C.
void StopExperiment(HeadClient& client, uint64_t id);
// Downloads those results of the submitted work that exist only on the cluster. False when some
// could not be downloaded; they have been named on standard error.
bool BringSubmittedHome(const Home& home, const std::string& cluster, const Attendance& attendance);

}  // namespace rt
