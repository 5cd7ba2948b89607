// rt-shim --nursery STATE_DIR: becomes a shim for each launch by fork, because executing even a
// small program costs several times as much. Descriptor 3: a SOCK_SEQPACKET socket to the daemon; a
// message is a run directory, with two descriptors, which become the shim's standard input and
// output. Descriptor 5: worker/launch/launch_lock.h, which a shim keeps until it has written who it
// is. Ends with the daemon; the shims keep running as children of init.
#pragma once

#include <string>

namespace rt::worker {

constexpr int kLaunchLock = 5;  // Also that of a warm start's group.

// Returns in each shim with its run directory, and in the forking process, at its end, with "".
// `argv` is main's: in a shim it is overwritten, so that ps shows what the shim is for.
std::string ForkShims(int argc, char** argv);

}  // namespace rt::worker
