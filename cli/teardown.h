// Ending a local cluster so that nothing is left of it, and the small detached process that does so
// for `rt submit --stop` and for `rt bridge --local` even when they vanish.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/client/archive.h"
#include "cli/client/head_client.h"
#include "cli/client/home.h"
#include "cli/client/local_cluster.h"
#include "common/base/json.h"
#include "common/run/subprocess.h"

namespace rt {

struct TearDownOptions {
  bool download = true;  // Bring home what exists on the cluster only.
  bool purge = false;    // Delete the history instead of archiving it.
  std::string results_root;  // Absolute.
};
struct TornDown {
  Json ended = Json::MakeArray();  // [{"id","kind","state"}]: what was open.
  std::string archive;             // Where its history is now; empty: nowhere.
  bool purged = false;             // There was a history, and it was deleted.
  std::vector<PlaceElsewhere> left;  // What that did not delete.
};
// Says what it ends, brings home what exists on the cluster only, stops trials, jobs and daemons,
// archives the history and forgets the cluster. OK when nothing runs. FailedPrecondition, and the
// cluster stays, when something could not be brought home; it has been named on standard error.
absl::StatusOr<TornDown> TearDown(const Home& home, const std::string& name,
                                  const TearDownOptions& options);
// Ends the daemons of a cluster that did not come up. `had_history`: it came from the archive and
// returns there; else nothing stays of it.
absl::Status UndoBringUp(const Home& home, const std::string& name, bool had_history);
// The same for a cluster in a directory of its own.
absl::Status ShutDown(HeadClient& client, const LocalCluster& cluster);

// What a private cluster leaves when it ends: nothing, unless the user said where its head's
// journal and checkpoints are to be kept. `path` empty: nothing again.
absl::Status SetKeptState(const std::string& cluster_directory, const std::string& path);
// Makes it the state of a cluster that has not started yet. It stays kept there until said
// otherwise.
absl::Status TakeKeptState(const std::string& path, const std::string& cluster_directory);

// The watcher: a detached `rt` that reads our end of a pipe. Closing it (or dying) lets it act.
class Watcher {
 public:
  // After the end of the job or experiment announced with Say: takes the cluster down if no other
  // job or experiment lives on it, once what exists there only was brought home.
  static absl::StatusOr<Watcher> ForCluster(const std::string& name);
  // Waits for the daemons below `directory` to end, then removes it.
  static absl::StatusOr<Watcher> ForDirectory(const std::string& directory);
  Watcher(Watcher&& other) noexcept;
  ~Watcher();

  // "job 3", "experiment 2", "results DIR", "no-download"; "keep": the cluster stays.
  void Say(const std::string& line);
  // Lets it act, and waits for it.
  absl::Status Finish(Millis wait_for);

 private:
  static absl::StatusOr<Watcher> Start(const std::string& verb, const std::string& argument);
  Watcher(int fd, Subprocess child) : fd_(fd), child_(std::move(child)) {}
  int fd_;
  Subprocess child_;
};

// Why the watcher left the cluster up; empty when it did not, or is not done.
std::string WhyKept(const Home& home, const std::string& name);

// The watcher's own main: `rt __teardown cluster|directory ARGUMENT`, the pipe on descriptor 3.
int RunWatcher(const std::string& verb, const std::string& argument);

}  // namespace rt
