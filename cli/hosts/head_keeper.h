// `rt __keep-head DIR …`: on the machine of a head in a cloud, next to the head, under its account
// and in its environment. It starts the head again when that has died, with growing pauses. (A head
// that ends in order removes its pid file; the keeper ends with it, or with the cluster's
// directory.) The agent starts a keeper whenever it has started the head.
#pragma once

#include <string>
#include <vector>

#include "common/base/time.h"

namespace rt {

struct KeepWish {
  std::string directory;                // Of the cluster on this machine; the head is below it.
  std::vector<std::string> head_flags;  // As of LocalCluster.
  std::string end_file;                 // Is written when the machine is to end.
  // So long a head may be dead although it is started again and again; then the machine ends. 0:
  // it never ends, because people manage it.
  Millis dead_max = 0;
};

// The directory of the keeper's pid file and log.
std::string KeeperDirectory(const std::string& cluster_directory);
// The command line that starts a keeper. `programs` is the directory of the programs.
std::vector<std::string> KeeperCommand(const std::string& programs, const KeepWish& wish);

// Runs `rt __keep-head` with the arguments `words`, and returns its exit code.
int KeepHead(const std::vector<std::string>& words);

}  // namespace rt
