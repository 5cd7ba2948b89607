// One connection to a host: the system's ssh, with our agent at its far end, which answers each
// line of JSON with one line. Blocks; used by one thread at a time. Closing it (or dying) ends the
// agent and leaves the daemons that it started.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cli/hosts/ssh_command.h"
#include "common/base/json.h"
#include "common/base/time.h"
#include "common/programs/programs_archive.h"
#include "common/run/subprocess.h"
#include "common/yaml/host_list.h"

namespace rt {

class HostSession {
 public:
  // Connects, and sends the programs when the host lacks them. Unavailable when ssh fails, with
  // what it said and what to do. NotFound: the plan is a removal, and there is nothing to remove.
  static absl::StatusOr<HostSession> Open(const HostSpec& host, const SshPlan& plan,
                                          ProgramsArchive& programs);
  HostSession(HostSession&& other) noexcept;
  HostSession& operator=(HostSession&& other) noexcept;
  ~HostSession();

  // Open failed because the host accepts none of the keys.
  static bool IsDenied(const absl::Status& status);

  // `bytes` follow the request, which says how many they are. The answer of the agent, or the error
  // that it answered with. Unavailable when the connection broke or `wait` ms are over; the session
  // is of no use then.
  absl::StatusOr<Json> Ask(const Json& request, Millis wait, std::string_view bytes = {});
  // The agent's first line: {"version", "address": the host's in its own network, "client": the
  // address from which this connection arrived at the host}.
  const Json& hello() const { return hello_; }
  // "ED25519" when the host key was pinned by this connection; empty: it was known.
  std::string PinnedKey() const;

 private:
  HostSession(HostSpec host, Subprocess ssh, int fd, int errors)
      : host_(std::move(host)), ssh_(std::move(ssh)), fd_(fd), errors_(errors) {}
  absl::Status Greet(ProgramsArchive& programs);
  absl::Status SendArchive(ProgramsArchive& programs, const std::string& machine);
  absl::Status Send(std::string_view bytes, Millis until);
  absl::StatusOr<std::string> ReadLine(Millis until);
  absl::Status Broken(const std::string& what);
  std::string ErrorText() const;

  HostSpec host_;
  std::optional<Subprocess> ssh_;
  int fd_ = -1;      // A socket: standard input and output of ssh.
  int errors_ = -1;  // What ssh and the far end write to standard error.
  std::string read_;
  Json hello_;
};

}  // namespace rt
