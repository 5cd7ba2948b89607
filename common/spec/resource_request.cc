#include "common/spec/resource_request.h"

#include "common/base/status.h"
#include "common/spec/experiment_spec.h"

namespace rt {
namespace {

absl::StatusOr<bool> ReadSharing(const Json& json, std::string_view path) {
  const std::string value = json.is_string() ? json.AsString() : "";
  if (value == "pack") return false;
  if (value == "spread") return true;
  return SpecError(std::string(path) + "/gpu_sharing", "must be 'pack' or 'spread'",
                   "pack fills one gpu before the next is touched, spread takes the emptiest");
}

}  // namespace

Resources ResourceRequest::Total() const {
  Resources total;
  for (const Resources& bundle : bundles) total.Add(bundle);
  return total;
}

absl::StatusOr<ResourceRequest> ParseResourceRequest(const Json& json, std::string_view path) {
  ResourceRequest request;
  if (!json.is_object()) return ParseResources(json, path).status();
  Json plain = Json::MakeObject();
  for (const auto& [key, value] : json.object()) {
    if (key == "gpu_sharing") {
      RT_ASSIGN_OR_RETURN(request.spread_gpus, ReadSharing(value, path));
    } else {
      plain.Set(key, value);
    }
  }
  RT_ASSIGN_OR_RETURN(request.bundles.front(), ParseResources(plain, path));
  return request;
}

Json ToJson(const ResourceRequest& request) { return ToJson(request.Total()); }

std::string Describe(const ResourceRequest& request) { return Describe(request.one()); }

}  // namespace rt
