#include "cli/line/not_yet.h"

#include "common/base/status.h"

namespace rt {
namespace {

struct Missing {
  std::string_view word;
  std::string_view instead;
};
constexpr Missing kMissing[] = {
    {"exec",
     "run a program on the cluster with 'rt submit ./program'; 'rt node list' shows the "
     "addresses of the nodes for ssh"},
    {"attach",
     "log in to a node with ssh: 'rt node list' shows the addresses; 'rt logs -f' "
     "follows the output of a job or trial"},
    {"rsync-up", "'rt submit' takes the working directory along with each job and experiment"},
    {"rsync-down",
     "'rt exp download' and 'rt trial checkpoint' fetch results, output and "
     "checkpoints"},
    {"dashboard", "'rt watch' is a live screen, and TensorBoard reads the results directory"},
};

}  // namespace

absl::Status NotYetAvailable(std::string_view word) {
  for (const Missing& missing : kMissing) {
    if (missing.word != word) continue;
    const std::string what = word.starts_with("-") ? std::string(word) : "rt " + std::string(word);
    return Invalid(what + " is not available in this release yet",
                   "what works: " + std::string(missing.instead));
  }
  return absl::OkStatus();
}

}  // namespace rt
