// An object store by its URL, with what it stands on.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/cas/object_store.h"

namespace rt {

// "s3://bucket/prefix" (endpoint, region and credentials: s3_client.h, common/aws), "file:///dir"
// or "/dir". Calls that fail for a moment are repeated a few times. InvalidArgument for another
// text.
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenObjects(const std::string& url);
absl::Status CheckObjectsUrl(const std::string& url);

}  // namespace rt
