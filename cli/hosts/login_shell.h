// The login shell of the account that runs this agent: its environment, which daemons and trials
// get, and the setup commands of cluster.yaml. These are shell commands by definition and belong to
// the owner of the file; nothing else reaches a shell. Blocks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/limits_hosts.h"
#include "common/base/time.h"

namespace rt {

// Gives this process the environment that an interactive login shell would have (modules, conda,
// proxies), without what ssh added. What the shell does not say within a bound stays as it is.
void TakeLoginEnvironment();

struct SetupOutcome {
  std::string failed;  // What went wrong; empty: nothing did.
  std::string log;     // The end of the log; empty when nothing went wrong.
};
// Runs the commands one after the other in the home directory; each that fails gets a second try.
// What they print goes into `log_file`. Together they may take `most`. When `is_cancelled` answers
// true, the command that runs is killed.
absl::StatusOr<SetupOutcome> RunSetup(const std::vector<std::string>& commands,
                                      const std::string& log_file,
                                      const std::function<bool()>& is_cancelled,
                                      Millis most = limits::kSetupMax);

}  // namespace rt
