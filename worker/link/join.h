// How a node becomes a member: a single-use token the first time, its own certificate afterwards.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/rpc/identity.h"

namespace rt::worker {

struct JoinOptions {
  std::string head;          // host:port
  std::string token_file;    // May be empty once joined.
  std::string name;          // That it was given; may be empty.
  std::string default_name;  // Where neither it nor its token was given one.
  std::string directory;     // Where the credentials are kept.
};
// Reads the credentials, or presents the token. Waits for a head that is away, up to a minute.
absl::StatusOr<Credentials> ReadOrJoin(const JoinOptions& options);

}  // namespace rt::worker
