// Which sources of notices a daemon has: those that the user names, or those that fit the machine.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "worker/notice/signal.h"

namespace rt::worker {

// What a machine says of itself; replaced in tests.
struct MachineFacts {
  // The text of a file below /sys/class/dmi/id; empty when there is none.
  std::function<std::string(const std::string& file)> dmi;
  std::function<bool(const std::string& variable)> has_env;
};
MachineFacts ThisMachine();

// "auto", "none", or names with commas between: aws, aws-interruption, gcp, azure, slurm,
// kubernetes, sigterm. "auto" looks at the machine and asks nothing over the network.
absl::StatusOr<std::vector<std::string>> NoticeNames(const std::string& text,
                                                     const MachineFacts& machine);

struct NoticeSources {
  std::vector<std::unique_ptr<NoticeSource>> all;
  // Those of `all` that these signals are for; null: none.
  SignalNotices* on_usr1 = nullptr;
  SignalNotices* on_term = nullptr;
};
// `url`: instead of the metadata servers; `file`: of a FileNotices beside them; empty: none.
NoticeSources MakeNoticeSources(const std::vector<std::string>& names, const std::string& url,
                                const std::string& file);

}  // namespace rt::worker
