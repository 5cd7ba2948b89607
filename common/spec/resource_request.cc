#include "common/spec/resource_request.h"

#include <algorithm>
#include <cctype>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/experiment_spec.h"

namespace rt {
namespace {

constexpr size_t kBundlesShown = 4;

const char* RequestNameOf(Strategy strategy) {
  switch (strategy) {
    case Strategy::kPack: return "PACK";
    case Strategy::kSpread: return "SPREAD";
    case Strategy::kStrictPack: return "STRICT_PACK";
    case Strategy::kStrictSpread: return "STRICT_SPREAD";
  }
  return "?";
}

absl::StatusOr<bool> ReadSharing(const Json& json, const std::string& path) {
  const std::string value = json.is_string() ? json.AsString() : "";
  if (value == "pack") return false;
  if (value == "spread") return true;
  return SpecError(path, "must be 'pack' or 'spread'",
                   "pack fills one gpu before the next is touched, spread takes the emptiest");
}

absl::StatusOr<Strategy> ReadStrategy(const Json& json, const std::string& path) {
  std::string value = json.is_string() ? json.AsString() : "";
  for (char& c : value) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (Strategy strategy : {Strategy::kPack, Strategy::kSpread, Strategy::kStrictPack,
                            Strategy::kStrictSpread})
    if (value == RequestNameOf(strategy)) return strategy;
  return SpecError(path, "must be PACK, SPREAD, STRICT_PACK or STRICT_SPREAD");
}

absl::StatusOr<size_t> ReadRanks(const Json& json, size_t most, const std::string& path) {
  if (!json.is_int() || json.AsInt() < 1 || json.AsInt() > static_cast<int64_t>(most))
    return SpecError(path, "must be a whole number between 1 and " + std::to_string(most));
  return static_cast<size_t>(json.AsInt());
}

absl::StatusOr<std::vector<Resources>> ReadBundles(const Json& json, const std::string& path) {
  if (!json.is_array() || json.array().empty())
    return SpecError(path, "must be a list of maps such as {cpu: 1, gpu: 1}");
  if (json.array().size() > limits::kBundlesMax)
    return SpecError(path, "has more than " + std::to_string(limits::kBundlesMax) + " bundles");
  std::vector<Resources> bundles;
  for (size_t i = 0; i < json.array().size(); ++i) {
    RT_ASSIGN_OR_RETURN(bundles.emplace_back(),
                        ParseResources(json.array()[i], path + "/" + std::to_string(i)));
  }
  return bundles;
}

}  // namespace

Resources ResourceRequest::Total() const {
  Resources total;
  for (const Resources& bundle : bundles) total.Add(bundle);
  return total;
}

bool ResourceRequest::is_uniform() const {
  return ranks == bundles.size() && std::equal(bundles.begin() + 1, bundles.end(), bundles.begin());
}

ResourceRequest ResourceRequest::WithRanks(uint32_t count) const {
  ResourceRequest other = *this;
  other.bundles.assign(count, one());
  other.ranks = count;
  return other;
}

absl::StatusOr<ResourceRequest> ParseResourceRequest(const Json& json, std::string_view path) {
  ResourceRequest request;
  if (!json.is_object()) return ParseResources(json, path).status();
  const std::string below = std::string(path) + "/";
  Json plain = Json::MakeObject();
  const Json *bundles = nullptr, *ranks = nullptr;
  for (const auto& [key, value] : json.object()) {
    if (key == "gpu_sharing") {
      RT_ASSIGN_OR_RETURN(request.spread_gpus, ReadSharing(value, below + key));
    } else if (key == "strategy") {
      RT_ASSIGN_OR_RETURN(request.strategy, ReadStrategy(value, below + key));
    } else if (key == "bundles") {
      bundles = &value;
    } else if (key == "ranks") {
      ranks = &value;
    } else {
      plain.Set(key, value);
    }
  }
  if (bundles == nullptr) {
    RT_ASSIGN_OR_RETURN(Resources each, ParseResources(plain, path));
    size_t count = 1;
    if (ranks != nullptr) {
      RT_ASSIGN_OR_RETURN(count, ReadRanks(*ranks, limits::kBundlesMax, below + "ranks"));
    }
    request.bundles.assign(count, each);
  } else if (!plain.object().empty()) {
    const std::string& key = plain.object().front().first;
    return SpecError(below + key, "stands beside 'bundles'", "put it into the bundles");
  } else {
    RT_ASSIGN_OR_RETURN(request.bundles, ReadBundles(*bundles, below + "bundles"));
  }
  request.ranks = static_cast<uint32_t>(request.bundles.size());
  if (bundles != nullptr && ranks != nullptr) {
    RT_ASSIGN_OR_RETURN(size_t some, ReadRanks(*ranks, request.ranks, below + "ranks"));
    request.ranks = static_cast<uint32_t>(some);
  }
  return request;
}

Json ToJson(const ResourceRequest& request) {
  Json json = ToJson(request.Total());
  Json bundles = Json::MakeArray();
  if (request.is_gang())
    for (const Resources& bundle : request.bundles) bundles.Append(ToJson(bundle));
  json.Set("ranks", request.ranks);
  json.Set("bundles", request.is_gang() ? std::move(bundles) : Json());
  json.Set("strategy", request.is_gang() ? Json(RequestNameOf(request.strategy)) : Json());
  return json;
}

std::string Describe(const ResourceRequest& request) {
  if (!request.is_gang()) return Describe(request.one());
  const std::vector<Resources>& bundles = request.bundles;
  const bool are_equal = std::equal(bundles.begin() + 1, bundles.end(), bundles.begin());
  std::vector<std::string> texts;
  for (size_t i = 0; i < (are_equal ? 1 : std::min(bundles.size(), kBundlesShown)); ++i)
    texts.push_back(Describe(bundles[i]));
  if (!are_equal && bundles.size() > kBundlesShown) texts.push_back("…");
  return std::to_string(bundles.size()) + " bundles of " + Join(texts, "; ") + " (" +
         RequestNameOf(request.strategy) + ")";
}

}  // namespace rt
