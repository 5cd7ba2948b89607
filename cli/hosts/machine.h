// `rt __machine RT-WORKER FLAGS…`: what the user data of a machine of a cloud starts. It asks the
// head for the setup commands of the machine's pool, runs them once, and becomes the worker, with
// the environment of a login shell. When commands fail, the worker joins quarantined with their
// log; they are run again when the machine starts its worker again.
#pragma once

#include <string>
#include <vector>

namespace rt {

// `worker`: its program and flags, with --head, --token-file and --state-dir. Returns an exit code
// only when the worker was not started; the reason is on standard error.
int BecomeWorker(const std::vector<std::string>& worker);

}  // namespace rt
