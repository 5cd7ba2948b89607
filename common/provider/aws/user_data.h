// What an instance is told at its birth: a constant POSIX script with the data behind it. No value
// is ever part of a command: each travels as base64 between the quoted marks of a here-document,
// and reaches a program as one argument, or as a file. Pure.
//
// Every process on the machine can read this through the metadata address, so the only secret in it
// is a single-use token that is spent before the first trial runs (docs/adr/0029). How the programs
// get there is this file's business alone.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace rt {

// Of the head's machine, which the client sets up over ssh: it ends itself when no client does so.
extern const char kHeadUserData[];

struct WorkerBoot {
  std::string head_address;  // host:port, or several with commas.
  std::string token;         // Of this machine, single-use.
  std::string name;          // That the worker joins under.
  std::string resources;     // As rt-worker's flags; may be empty.
  std::string labels;
  std::string user;  // That runs the worker, if there is such an account; empty: root.
  // The archive of the programs (cli/hosts), and the SHA-256 of its bytes. Without a URL the image
  // has the programs.
  std::string programs_url;
  std::string programs_sha256;
};

// InvalidArgument when it is longer than EC2 takes.
absl::StatusOr<std::string> WorkerUserData(const WorkerBoot& boot);

}  // namespace rt
