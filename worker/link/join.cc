#include "worker/link/join.h"

#include "common/base/status.h"
#include "common/rpc/join.h"
#include "common/run/files.h"
#include "common/spec/item_name.h"

namespace rt::worker {
namespace {
constexpr Millis kHeadAwayMax = 60'000;

// The head refuses names that read as ids, and the host names of some containers are all digits.
std::string DefaultName(const std::string& host_name) {
  return CheckItemName("name", host_name).ok() ? host_name : "host-" + host_name;
}
}  // namespace

absl::StatusOr<Credentials> ReadOrJoin(const JoinOptions& options) {
  if (Exists(options.directory + "/cert.pem")) return ReadCredentials(options.directory);
  if (options.token_file.empty()) {
    return Invalid("this node has not joined yet: --token-file is needed",
                   "make one with: rt token create --role worker");
  }
  RT_ASSIGN_OR_RETURN(std::string text, ReadFile(options.token_file, 1 << 20));
  absl::StatusOr<Joined> joined = JoinCluster({.head = options.head,
                                               .token = std::move(text),
                                               .kind = "node",
                                               .name = options.name,
                                               .default_name = DefaultName(options.default_name),
                                               .away_max = kHeadAwayMax});
  if (!joined.ok()) return Annotate(joined.status(), "join " + options.head);
  RT_RETURN_IF_ERROR(EnsureDirectory(options.directory));
  RT_RETURN_IF_ERROR(WriteCredentials(options.directory, joined->credentials));
  return joined->credentials;
}

}  // namespace rt::worker
