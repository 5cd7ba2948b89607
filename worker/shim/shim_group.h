// rt-shim --group RUN_DIR SOCKET: the parent of one warm-start server (python/rt/_warm.py) and of
// the attempts that the server forks. As for a single launch it outlives the worker daemon, is the
// subreaper, owns the log files, and writes and syncs each attempt's exit file, also when the
// server dies first: then its children are ours.
//
// Standard input: the server's launch spec, as for a single launch. Descriptor 3: the listening
// SOCK_SEQPACKET socket, which the group removes as it ends. Descriptor 4: the keeper, a socket
// that the daemon holds. When it closes, or the server dies, nothing new is started; the server is
// killed, and the group ends with its last attempt. Descriptor 5: worker/launch/launch_lock.h,
// which it keeps until the server is gone and nothing more can be started.
//
// A daemon connects once per attempt and sends NUL-terminated fields:
//   launch RUN_DIR TOKEN BYTES_PER_LOG_FILE FILES_KEPT CGROUP   with a descriptor of its spec;
//   watch RUN_DIR                                        what an earlier daemon started;
//   cancel                                               it waits no longer: not started yet?
// launch is answered once: "program PID …", "refused WHY" (this trainable can never be started
// warm) or "cold WHY" (this attempt was not). Then the connection lasts as long as the attempt:
// its end says that the exit file is written, or that the group was killed.
//
// To the server go messages "ID" with the descriptors of the spec and of the attempt's standard
// output and error; it says "ready" or "refused WHY" once, then "started ID PID", "failed
// ID WHY" (both from the child itself, before any user code), "exit ID WAITSTATUS", "cold ID WHY".
#pragma once

#include <string>

#include "worker/shim/shim_process.h"

namespace rt::worker {

int RunGroup(const Spec& spec, const std::string& socket_path, int signals);

}  // namespace rt::worker
