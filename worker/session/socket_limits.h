// The bounds of a trial's socket, with their reasons: beside common/base/limits.h, for the few
// files that need them. Whatever runs in the attempt may connect, before it shows the token.
#pragma once

#include <cstddef>

#include "common/base/time.h"

namespace rt::limits {

// Driver calls of one attempt that run at the same time: a driver needs one for each experiment
// that it waits for. A head accepts kStreamsMax calls on one connection of a worker, so that four
// drivers of a node can use up their bound without waiting for each other.
inline constexpr int kDriverCallsMax = 256;
// Connections of one attempt's socket, and those of them that have not said hello: a program and
// the subprocesses that report need a few. Each is a descriptor of the daemon.
inline constexpr size_t kTrialConnectionsMax = 64;
inline constexpr size_t kTrialUngreetedMax = 16;
// Connections that one listener accepts in one turn; fewer than kTrialUngreetedMax, so that the
// hellos of a burst are read before the rest of the burst is accepted.
inline constexpr size_t kTrialAcceptsPerTurn = 8;
// Lines of one connection that are handled in one turn; then the other connections have theirs.
// Rows of one turn travel to the head together: with 64 lines the same rows took a quarter more
// records.
inline constexpr size_t kTrialLinesPerTurn = 256;
// Answers that a connection has not read: above it no line of it is handled.
inline constexpr size_t kTrialUnreadMax = 1u << 20;
// A driver's answer above this size is not kept for a connection that has kTrialUnreadMax unread:
// its call is made again once those are read. Answers that large are reads, whose calls are small;
// a larger call is not kept either. What is kept for one attempt is kDriverCallsMax such calls.
inline constexpr size_t kDriverAnswerKept = 16u << 10;
inline constexpr size_t kDriverCallKept = 16u << 10;
// Bytes of a line before hello, and such lines: a hello is a token and little else.
inline constexpr size_t kTrialHelloBytesMax = 4'096;
inline constexpr size_t kTrialHelloLinesMax = 16;
// The daemon's log names refused reports of an attempt, and refused connections, this often.
inline constexpr Millis kRefusalLogInterval = 60'000;

// A barrier whose rank's program ended is said to be impossible after this: when the program
// failed, the head ends the other ranks before.
inline constexpr Millis kBarrierEndGrace = 5'000;
// The daemon of rank 0's node answers another daemon after this at the latest.
inline constexpr Millis kBarrierHold = 5'000;
// A daemon tells that of rank 0's node that some of its ranks wait for others there.
inline constexpr Millis kBarrierTellAfter = 1'000;
// A daemon that could not be asked is asked again.
inline constexpr Millis kBarrierAskAgain = 200;
// Missing ranks whose stacks are read for one that waited too long, and the bytes of each: enough
// for some threads of a deep training loop, and all of them fit into one message.
inline constexpr size_t kStackRanksMax = 8;
inline constexpr size_t kStackBytesMax = 8u << 10;
// A rank has this long to write its stacks, and it has written them once it was silent for a while.
inline constexpr Millis kStackWait = 1'000;
inline constexpr Millis kStackQuiet = 100;
// Groups of attempts that other nodes ask about, and how long one is kept without a running rank
// here.
inline constexpr size_t kBarrierGroupsMax = 4'096;
inline constexpr Millis kBarrierUnusedMax = 60'000;

}  // namespace rt::limits
