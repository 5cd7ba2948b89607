// The command line of rt-worker.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/limits.h"
#include "common/base/time.h"
#include "common/spec/resources.h"

namespace rt::worker {

struct Flags {
  std::string head;
  std::string token_file;
  std::string state_dir;
  std::string name;
  Resources resources;
  bool says_gpus = false;  // Whether --resources names a number of gpus.
  uint32_t gpu_share = 0, gpu_shares = 1;  // Of the machine's gpus: the share-th part, from 0.
  std::map<std::string, std::string> labels;
  Millis disconnect_stop = limits::kDisconnectStop;  // 0: never.
  Millis dead_man = 0;  // Without a head for so long, the daemon ends (kDeadManStatus); 0: never.
  Millis away = limits::kAwayFor;        // Announced when it is stopped in order; 0: nothing is.
  Millis loop_hang = limits::kLoopHang;  // 0: nobody watches.
  std::vector<std::string> notices;  // Names of sources (worker/notice/notice_choice.h).
  std::string notice_file, notice_url;
  Millis notice_grace = 30'000;
  int peer_port = 0;           // Where other workers are served; 0: any, -1: nowhere.
  Bytes peer_bandwidth = 0;    // To them, a second; 0: no bound.
  Bytes keep_checkpoints = -1;  // On this disk; -1: limits::kKeptCheckpointBytesMax.
  Bytes keep_outputs = limits::kOutputBytesMax;  // Of what a trial wrote; 0: nothing.
  bool help = false;
  bool version = false;
  bool failpoints = false;  // Only list them.
};
extern const char kUsage[];
// "--flag value" and "--flag=value". What --resources leaves out is all that the machine has; gpus
// are looked for elsewhere (worker/gpu).
absl::StatusOr<Flags> ParseFlags(int argc, char** argv);

}  // namespace rt::worker
