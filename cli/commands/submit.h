// The parts of `rt submit`: what is submitted, and the two ways to run it.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cli/commands/common.h"
#include "cli/teardown.h"
#include "common/yaml/experiment_file.h"

namespace rt {

struct Submission {
  std::string script;                   // As typed.
  std::vector<std::string> arguments;   // Of the script, exactly.
  std::optional<ExperimentFile> experiment;  // Set when the script is an experiment YAML.
};

// Snapshots the working directory into the head's store; the bundle's digest.
absl::StatusOr<std::string> PushWorkingDirectory(HeadClient& client, const Home& home,
                                                 std::vector<std::string> exclude);
absl::StatusOr<std::string> FindProgram(const std::string& name);  // Absolute, from PATH.
// Both return the exit code of the command once the work is accepted; `watcher` may be null and is
// told what was accepted.
ExitCode SubmitJob(HeadClient& client, const Home& home, const Invocation& invocation,
                   const Submission& submission, Watcher* watcher);
ExitCode SubmitExperiment(HeadClient& client, const Home& home, const Invocation& invocation,
                          const Submission& submission, Watcher* watcher);

// Runs `on_interrupt` in a thread of its own at the first Ctrl-C; the second one ends the process
// with 130. SIGINT must be blocked (BlockInterrupts) before the first thread starts.
void BlockInterrupts();
class InterruptThread {
 public:
  explicit InterruptThread(std::function<void()> on_interrupt);
  ~InterruptThread();
  bool interrupted() const { return interrupted_; }

 private:
  void Run();
  std::function<void()> on_interrupt_;
  std::atomic<bool> interrupted_ = false, done_ = false;
  std::thread thread_;
};

}  // namespace rt
