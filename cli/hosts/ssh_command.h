// The command line of the ssh that reaches a host and becomes the agent there (`rt __host`). Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/yaml/host_list.h"

namespace rt {

struct SshPlan {
  std::string known_hosts;    // Our file of pinned host keys; those of the user count as well.
  // The name under which the key is pinned, in our file alone; empty: the address.
  std::string pinned_as;
  std::string proxy_command;  // As ssh's option; may be empty.
  std::string directory;      // On the hosts; empty: ~/.rt-node.
  std::string digest;         // Of the archive, 64 hex digits.
  bool is_removal = false;    // Where nothing of rt is, nothing is sent: "rt-host nothing".
};

// The system's ssh with its own configuration. What it runs on the host is a constant script for a
// POSIX shell, with the directory and the digest as its arguments. The script says "rt-host need
// SYSTEM MACHINE" where the host lacks the archive, and then reads "BYTES\n" and the archive from
// its standard input. In both cases it becomes the agent, which says "rt-host ready …" first.
std::vector<std::string> SshArgv(const HostSpec& host, const SshPlan& plan);

// One word of a POSIX shell.
std::string ShellQuote(std::string_view text);

// "user@host -p 2222": how a person reaches the host, for hints.
std::string SshText(const HostSpec& host);

}  // namespace rt
