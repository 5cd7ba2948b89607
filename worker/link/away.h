// Whether a daemon that is being stopped announces that it comes back.
#pragma once

#include <string>

#include "common/base/time.h"

namespace rt::worker {

// `flag`, or 0 after another signal than SIGTERM (Ctrl-C means that nobody starts it again), where
// the daemon is the first process of a container, whose programs end with it, and while the machine
// goes down. `signal` is 0 when a notice ended the daemon. Blocks for a second at most.
Millis AwayFor(int signal, Millis flag);

// Whether the machine stays up, by what `systemctl is-system-running` says. Any other answer, or
// none, means that the machine may be going down.
bool StaysUp(const std::string& state);

}  // namespace rt::worker
