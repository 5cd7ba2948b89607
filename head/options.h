// The command line of rt-head. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace rt {

struct HeadOptions {
  bool help = false;
  bool failpoints = false;  // Only list them.
  std::string state_dir;  // Absolute.
  std::string listen;     // "ADDR:PORT"; empty: 127.0.0.1 at the port of the last run, or any.
  std::string advertise;  // What others are told; empty: where it listens.
  std::string config;     // File; empty: none.
  std::vector<std::string> results_roots;  // In addition to the configuration's.
  std::string metrics;    // "ADDR:PORT" of the page for Prometheus; empty: none.
  bool standby = false;  // Follow the head that leads, and take over when it ends.
  std::string peers;     // "ADDR:PORT,…" of the cluster's other heads; empty: none.
  std::string restore_from;  // An object store: make the state directory from it, and end.
  std::string key_file;      // What opens the identity there.
  bool restored = false;  // Note that the state directory is an older copy, and end.
  int lifeline = -1;      // A descriptor whose end of file stops everything; -1: none.
};
// `arguments` without the program's name. InvalidArgument for a usage error.
absl::StatusOr<HeadOptions> ParseHeadOptions(const std::vector<std::string>& arguments);
extern const char* const kHeadHelp;

struct HostPort {
  std::string host;
  int port = 0;
};
absl::StatusOr<HostPort> ParseHostPort(const std::string& text);
std::string ToString(const HostPort& address);

}  // namespace rt
