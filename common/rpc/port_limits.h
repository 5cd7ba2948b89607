// The bounds of a port that strangers can reach, with their reasons: beside common/base/limits.h,
// for the few files that need them. docs/security.md lists them.
#pragma once

#include <cstddef>

#include "common/base/limits_executors.h"
#include "common/base/time.h"

namespace rt::limits {

// Connections of a port that have not shown who they are (common/rpc/port_listener.h), and those of
// them whose handshake is under way; fewer where few files may be open, and three quarters of them
// for one address. One lasts at most this long. A thousand workers of one address that connect at
// the same time fit in.
inline constexpr size_t kPendingMax = 4'096;
inline constexpr size_t kHandshakesMax = 256;
inline constexpr Millis kHandshakeMax = 5'000;
// How long it is said that connections were closed for lack of descriptors, after the last one: a
// person whose own connection was closed has the time to ask again.
inline constexpr Millis kShortageSaid = 20'000;
// Descriptors that connections leave for everything else: the journal, the store, logs.
inline constexpr size_t kFilesReserved = 256;

// What the kernel receives ahead of the server until a first call was answered. With less than one
// packet of the loopback interface (64 KiB) a sender waits for its timer after each piece.
inline constexpr Bytes kPendingBufferBytes = 64 << 10;

// Bytes that arrive and of which no call and no message comes (common/rpc/fruitless.h). So many
// may stay for kFruitlessMax; the headers of a request are never more than kSilentBytesMax. One
// message is at most kChunkMessageBytesMax, with what carries it; 16 MiB in kBodyMax are 55 KB/s.
inline constexpr Bytes kFruitlessBytes = 64 << 10;
inline constexpr Millis kFruitlessMax = 60'000;
inline constexpr Bytes kSilentBytesMax = 96 << 10;
inline constexpr Bytes kBodyBytesMax = 20 << 20;
inline constexpr Millis kBodyMax = 300'000;
// Keepalive pings of an idle client.
inline constexpr Bytes kIdleBytesPerSecond = 256;
// The listener looks every 250 ms. A longer pause was this process standing still.
inline constexpr Millis kFruitlessStep = 500;

// Calls of one connection that run at the same time, as the server tells the client; a client that
// has four times as many ignores it, and is cut off.
inline constexpr size_t kStreamsMax = 1'024;
inline constexpr size_t kCallsOfConnectionMax = 4 * kStreamsMax;
// Running calls of one identity: 1 000 drivers of one user that wait for their experiments.
inline constexpr size_t kCallsOfIdentityMax = 8'192;
// Calls of one identity whose headers were parsed and whose handlers have not run yet: as many as
// a connection may have, so that a script that begins them all at once is answered. Further calls
// come faster than they can be handled, and are refused. Fewer for an identity that is blocked.
inline constexpr size_t kCallsUnderWayMax = kStreamsMax;
inline constexpr size_t kCallsOfBlockedMax = 16;
// Calls under way above which their memory is returned to the machine after they have ended.
inline constexpr size_t kCallsOfFlood = kStreamsMax / 8;
// Both bounds for a join token, which needs one call.
inline constexpr size_t kCallsOfTokenMax = 64;
// Calls that an identity may break off: so many at once, and so many a second. Honest clients break
// off a handful, when a person presses Ctrl-C or a pull has what it wants.
inline constexpr double kResetsBurst = 1'000;
inline constexpr double kResetsPerSecond = 50;
// Calls that are refused above kCallsUnderWayMax before the identity is blocked. More before it is
// seen to break calls off: those of a script with a few connections that begins all that they may
// have, and the next tries of those that were refused.
inline constexpr double kRefusalsBurst = 200;
inline constexpr double kEarlyRefusalsBurst = 4 * kStreamsMax;
inline constexpr double kRefusalsPerSecond = 50;
inline constexpr double kResetsNoted = 16;
// Connections of one identity: a share of all, and of a join token, which needs one.
inline constexpr size_t kConnectionsShare = 4;
inline constexpr size_t kConnectionsOfToken = 32;
// An identity whose connection was cut off is blocked for so long.
inline constexpr Millis kBlockedFor = 10'000;

// What gRPC may allocate for calls and transports before it takes in less.
inline constexpr Bytes kServerBytesMax = 160 << 20;
// Threads of services that block (a worker's streams to executors), with those that refuse more.
inline constexpr int kServerThreadsMax = static_cast<int>(kTaskStreamsOfNode) + 64;

}  // namespace rt::limits
