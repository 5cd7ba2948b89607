// RT_HOME/clusters/NAME/hosts.json: the hosts on which a cluster has daemons, for whoever removes
// it later without its file. It is written before the first of them is touched.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/yaml/host_list.h"

namespace rt {

std::string HostFile(const std::string& cluster_directory);
absl::Status WriteHostFile(const std::string& cluster_directory, const HostList& list);
// NotFound when there is none.
absl::StatusOr<HostList> ReadHostFile(const std::string& cluster_directory);

}  // namespace rt
