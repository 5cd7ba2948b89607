// Bounds of executors and their sessions (docs/adr/0041).
#pragma once

#include <cstddef>

#include "common/base/time.h"

namespace rt::limits {

// Executors of one request, so that its answer and its records stay small. A driver that needs
// more sends another request.
inline constexpr int64_t kExecutorsPerRequest = 1'000;
// Executors of one session that have not ended. An answer that lists them all fits into a message.
inline constexpr size_t kExecutorsPerSession = 5'000;
// Executors of all sessions that have not ended.
inline constexpr size_t kExecutorsMax = 50'000;
// Detached actors of a user, which no session ends.
inline constexpr size_t kDetachedPerUser = 1'000;
// A detached actor that fails is restarted at once, unless its processes fail one after another:
// then the second of these failures is followed by a pause, which doubles with each further one.
// A process that ran for so long ends the row. A constructor that cannot succeed costs one start a
// minute, and one whose data base is back is there again within a minute.
inline constexpr Millis kActorSteadyAfter = 60'000;
inline constexpr Millis kActorPauseFirst = 1'000;
inline constexpr Millis kActorPauseMax = 60'000;
// The state keeps this much of the traceback of a constructor that raised, and kReasonBytesMax of
// the message. With those of kEndedExecutorsKept actors it stays below 13 MB.
inline constexpr size_t kActorTracebackBytes = 8u << 10;
// The spec of an executor. The state has those of thousands.
inline constexpr size_t kExecutorSpecBytes = 64u << 10;
// The specs of one request together: one Step journals them all.
inline constexpr size_t kExecutorRequestBytes = 4u << 20;
// The newest executors that have ended stay known, so that their sessions can see how they ended. A
// driver takes one that is listed no more for lost.
inline constexpr size_t kEndedExecutorsKept = 1'000;
// A session ends when its driver was not heard for so long. A driver is heard at least every
// kExecutorWaitMax, which leaves time for a restart of its bridge or worker.
inline constexpr Millis kSessionLease = 30'000;
inline constexpr Millis kExecutorWaitMax = 10'000;
// Streams of drivers outside of the cluster through the head (ExecutorService.Dial): a driver has
// one for each process of an executor. Each may hold a piece of 256 KiB and gRPC's windows in
// either direction. The head grew by 24 MB with 63 streams that nobody read, so kTaskStreamsMax
// of them take about 400 MB.
inline constexpr size_t kTaskStreamsPerUser = 256;
inline constexpr size_t kTaskStreamsMax = 1'024;
// Streams to executors of one node, from drivers on other nodes and outside of the cluster. The
// daemon there has two threads for each of them.
inline constexpr size_t kTaskStreamsOfNode = 256;
// The first message of such a stream, and the connection to the executor's node.
inline constexpr Millis kTaskConnectMax = 10'000;
// The name of a session.
inline constexpr size_t kSessionNameMax = 64;

}  // namespace rt::limits
