// The bounds of what a client does on hosts that it reaches with ssh, each with its reason.
#pragma once

#include <cstddef>

#include "common/base/time.h"

namespace rt::limits {

// Hosts that are reached with ssh: a file with more names a data centre, and wants a provider that
// asks its scheduler. So many at once: each is an ssh process on the client's machine.
inline constexpr size_t kHostsMax = 1'024;
inline constexpr size_t kHostsAtOnce = 64;
// Until a host has let us in: a name to look up, a jump host, a slow login shell.
inline constexpr Millis kHostConnect = 30'000;
// One answer of the agent there, setup and transfers left out; it may start a head that replays.
inline constexpr Millis kHostAnswer = 60'000;
// For the archive of the programs, some 20 MB, over a slow line.
inline constexpr Millis kArchiveSend = 1'800'000;
inline constexpr Bytes kArchiveMax = Bytes{1} << 30;
// Machines that get the archive from the head's port at once, and how many of them under one
// identity (a machine whose connection broke may be back before the head has seen that): the head's
// line is shared by its work. The others ask again; each is cut off after kProgramsReadMax.
// gRPC encrypts what a reader's window admits at once, so that a message is what one costs.
inline constexpr size_t kProgramsPieceBytes = 1 << 20;
inline constexpr size_t kProgramsReadersMax = 16;
inline constexpr size_t kProgramsReadersOfOneMax = 2;
inline constexpr Millis kProgramsReadMax = 300'000;
// One line of the agent's protocol; and what a login shell may print before it. The longest is the
// list of the files of a mount.
inline constexpr size_t kHostLineMax = 32u << 20;
// file_mounts: code and small data. Each file is held in memory once; larger data belong into a
// store or on a file system of the hosts.
inline constexpr size_t kMountFilesMax = 100'000;
inline constexpr Bytes kMountFileMax = Bytes{2} << 30;
inline constexpr Bytes kMountArchiveMax = Bytes{4} << 30;
// All setup commands of a host or machine together: builds of CUDA extensions take that long. What
// takes longer belongs into an image.
inline constexpr Millis kSetupMax = 3'600'000;
// Of the log of setup commands that failed: so much fits into the reason of a node.
inline constexpr size_t kSetupTailMax = 3'000;
// Until the login shell has said its environment: conda needs seconds on a network file system.
inline constexpr Millis kLoginShellMax = 20'000;

}  // namespace rt::limits
