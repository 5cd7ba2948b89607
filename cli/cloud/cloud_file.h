// RT_HOME/clusters/NAME/cloud.json: what a client knows of a cluster in a cloud. It is written
// before the cloud is asked for anything, so that a client that was killed continues with the
// same cluster id. It is a cache: the tags in the cloud say the same to a client that lacks it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/base/json.h"
#include "common/base/time.h"

namespace rt {

struct CloudNote {
  Json provider;           // Of the head's configuration: region, endpoint, tags and so on.
  std::string cluster_id;  // The tag of all that belongs to it.
  std::string instance;    // Of the head; empty: it was not made, or the answer is missing.
  Millis asked_at = 0;     // On the wall clock: for the head's machine, at last.
  bool has_role = false;   // The head's role was made for this cluster.
  bool made_here = false;  // This client asked for the head's machine, not another one.
};

std::string CloudFile(const std::string& cluster_directory);
absl::Status WriteCloudFile(const std::string& cluster_directory, const CloudNote& note);
// NotFound when there is none.
absl::StatusOr<CloudNote> ReadCloudFile(const std::string& cluster_directory);

}  // namespace rt
