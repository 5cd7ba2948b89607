#include "common/aws/endpoint.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

// It becomes part of a host's name.
bool IsRegion(std::string_view text) {
  return !text.empty() && text.size() <= 40 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

}  // namespace

absl::StatusOr<AwsEndpoint> FindAwsEndpoint(const AwsEndpointAsk& ask,
                                            const Environment& environment) {
  RT_ASSIGN_OR_RETURN(auto profile, ReadAwsProfile(environment));
  auto first = [&](std::string_view given, const std::vector<std::string>& variables,
                   const char* setting, std::string_view otherwise) {
    if (!given.empty()) return std::string(given);
    for (const std::string& name : variables)
      if (auto found = environment.find(name); found != environment.end() && !found->second.empty())
        return found->second;
    return profile[setting].empty() ? std::string(otherwise) : profile[setting];
  };
  AwsEndpoint endpoint;
  endpoint.region =
      first(ask.region, {"AWS_REGION", "AWS_DEFAULT_REGION"}, "region", ask.region_otherwise);
  if (!IsRegion(endpoint.region))
    return Invalid("'" + Excerpt(endpoint.region) + "' is not the name of a region",
                   "write it as us-west-2");
  endpoint.url =
      first(ask.url, {"AWS_ENDPOINT_URL_" + std::string(ask.service), "AWS_ENDPOINT_URL"},
            "endpoint_url", "");
  while (endpoint.url.ends_with('/')) endpoint.url.pop_back();
  const size_t scheme = endpoint.url.find("://");
  const bool web = endpoint.url.starts_with("https://") || endpoint.url.starts_with("http://");
  if (!endpoint.url.empty() &&
      (!web || endpoint.url.find_first_of("/?#@", scheme + 3) != std::string::npos))
    return Invalid("the endpoint '" + EscapeControl(endpoint.url) + "' is no address",
                   "write it as https://host or https://host:port");
  return endpoint;
}

std::string HostOfUrl(std::string_view url) {
  const size_t scheme = url.find("://");
  std::string host(scheme == std::string_view::npos ? url : url.substr(scheme + 3));
  const std::string_view port = url.starts_with("http://") ? ":80" : ":443";
  if (host.ends_with(port)) host.erase(host.size() - port.size());
  return host;
}

}  // namespace rt
