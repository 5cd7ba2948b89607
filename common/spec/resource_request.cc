#include "common/spec/resource_request.h"

#include <algorithm>
#include <cctype>
#include <tuple>

#include "common/base/limits.h"
#include "common/base/limits_elastic.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/experiment_spec.h"
#include "common/spec/gpu_type.h"
#include "common/spec/resource_bounds.h"

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

absl::StatusOr<std::vector<std::string>> ReadGpuTypes(const Json& json, const std::string& path) {
  const auto wrong = [&] {
    return SpecError(path,
                     "must be the type of a gpu, or a list of at most " +
                         std::to_string(limits::kGpuTypesMax) + " of them",
                     "such as H100 or [H200, H100]; 'rt node show' lists the gpus of a node");
  };
  const Json list = json.is_array() ? json : Json(Json::Array{json});
  if (list.array().empty() || list.array().size() > limits::kGpuTypesMax) return wrong();
  std::vector<std::string> types;
  for (const Json& item : list.array()) {
    const std::string name = item.is_string() ? item.AsString() : "";
    std::string type = name.size() > limits::kGpuTypeBytesMax ? "" : GpuTypeOf(name);
    if (type.empty()) return wrong();
    if (name.ends_with("-MIG") && !type.ends_with("-MIG")) type += "-MIG";
    if (std::find(types.begin(), types.end(), type) == types.end()) types.push_back(type);
  }
  return types;
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

// Before a bundle is copied for each rank.
absl::Status CheckNames(size_t names, std::string_view path) {
  if (names <= limits::kCustomResourcesMax) return absl::OkStatus();
  return SpecError(path,
                   "names " + std::to_string(names) + " custom resources, at most " +
                       std::to_string(limits::kCustomResourcesMax) + " are allowed",
                   "name only what a node must have");
}

absl::Status CheckNamesOfAll(size_t names, std::string_view path) {
  if (names <= limits::kBundleNamesMax) return absl::OkStatus();
  return SpecError(path,
                   "the bundles name " + std::to_string(names) +
                       " custom resources together, at most " +
                       std::to_string(limits::kBundleNamesMax) + " are allowed",
                   "ask for fewer ranks or bundles, or for fewer custom resources");
}

absl::StatusOr<std::vector<Resources>> ReadBundles(const Json& json, const std::string& path) {
  if (!json.is_array() || json.array().empty())
    return SpecError(path, "must be a list of maps such as {cpu: 1, gpu: 1}");
  if (json.array().size() > limits::kBundlesMax)
    return SpecError(path, "has more than " + std::to_string(limits::kBundlesMax) + " bundles");
  std::vector<Resources> bundles;
  size_t names = 0;
  for (size_t i = 0; i < json.array().size(); ++i) {
    const std::string below = path + "/" + std::to_string(i);
    RT_ASSIGN_OR_RETURN(bundles.emplace_back(), ParseResources(json.array()[i], below));
    const size_t own = bundles.back().custom.size();
    RT_RETURN_IF_ERROR(CheckNames(own, below));
    RT_RETURN_IF_ERROR(CheckNamesOfAll(names += own, path));
  }
  return bundles;
}

// [1, 4]: bounds of a size that may change while it runs. Equal ones are a size.
absl::StatusOr<std::pair<size_t, size_t>> ReadBounds(const Json& json, const std::string& path) {
  if (json.array().size() != 2)
    return SpecError(path, "must be a number, or a list of two: the fewest and the most",
                     "ranks: [1, 4]");
  RT_ASSIGN_OR_RETURN(const size_t least, ReadRanks(json.array()[0], limits::kBundlesMax, path));
  RT_ASSIGN_OR_RETURN(const size_t most, ReadRanks(json.array()[1], limits::kBundlesMax, path));
  if (least > most)
    return SpecError(path, "begins with the fewest ranks, and " + std::to_string(least) +
                               " is more than " + std::to_string(most));
  return std::pair(least, most);
}

// It divides the ranks into groups, so it takes the place of a strategy.
absl::StatusOr<uint32_t> ReadRanksPerNode(const Json& value, const Json& all, size_t ranks,
                                          const std::string& below) {
  const std::string path = below + "ranks_per_node";
  for (const char* other : {"bundles", "strategy"})
    if (all.Find(other) != nullptr)
      return SpecError(path, "cannot be combined with '" + std::string(other) + "'",
                       "leave one of them out");
  RT_ASSIGN_OR_RETURN(const size_t per_node, ReadRanks(value, ranks, path));
  if (ranks % per_node != 0)
    return SpecError(path, "must divide the number of ranks, which is " + std::to_string(ranks));
  return static_cast<uint32_t>(per_node);
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

std::vector<ResourceRequest> ResourceRequest::Alternatives() const {
  if (gpu_types.empty()) return {*this};
  std::vector<ResourceRequest> all(gpu_types.size(), *this);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].gpu_types.clear();
    for (Resources& bundle : all[i].bundles)
      if (bundle.gpu > 0) bundle.custom[GpuTypeResource(gpu_types[i])] = kGpuTypeUnits;
  }
  return all;
}

absl::StatusOr<ResourceRequest> ParseResourceRequest(const Json& json, std::string_view path) {
  ResourceRequest request;
  if (!json.is_object()) return ParseResources(json, path).status();
  const std::string below = std::string(path) + "/";
  Json plain = Json::MakeObject();
  const Json *bundles = nullptr, *ranks = nullptr, *per_node = nullptr;
  for (const auto& [key, value] : json.object()) {
    if (key == "gpu_sharing") {
      RT_ASSIGN_OR_RETURN(request.spread_gpus, ReadSharing(value, below + key));
    } else if (key == "gpu_type") {
      RT_ASSIGN_OR_RETURN(request.gpu_types, ReadGpuTypes(value, below + key));
    } else if (key == "strategy") {
      RT_ASSIGN_OR_RETURN(request.strategy, ReadStrategy(value, below + key));
    } else if (key == "bundles") {
      bundles = &value;
    } else if (key == "ranks") {
      ranks = &value;
    } else if (key == "ranks_per_node") {
      per_node = &value;
    } else {
      plain.object().emplace_back(key, value);  // The keys differ.
    }
  }
  if (bundles == nullptr) {
    RT_ASSIGN_OR_RETURN(Resources each, ParseResources(plain, path));
    const size_t names = each.custom.size();
    RT_RETURN_IF_ERROR(CheckNames(names, path));
    size_t count = 1, most = 1;
    if (ranks != nullptr && ranks->is_array()) {
      RT_ASSIGN_OR_RETURN(std::tie(count, most), ReadBounds(*ranks, below + "ranks"));
      if (per_node != nullptr)
        return SpecError(below + "ranks_per_node", "needs a fixed number of ranks",
                         "leave it out: the head chooses the nodes");
    } else if (ranks != nullptr) {
      RT_ASSIGN_OR_RETURN(count, ReadRanks(*ranks, limits::kBundlesMax, below + "ranks"));
    }
    RT_RETURN_IF_ERROR(CheckNamesOfAll(names * std::max(count, most), path));
    request.bundles.assign(count, each);
    if (most > count) {
      request.ranks_min = static_cast<uint32_t>(count);
      request.ranks_max = static_cast<uint32_t>(most);
    }
  } else if (!plain.object().empty()) {
    const std::string& key = plain.object().front().first;
    return SpecError(below + key, "cannot be given together with 'bundles'",
                     "put it into the bundles");
  } else {
    RT_ASSIGN_OR_RETURN(request.bundles, ReadBundles(*bundles, below + "bundles"));
  }
  request.ranks = static_cast<uint32_t>(request.bundles.size());
  if (bundles != nullptr && ranks != nullptr) {
    const size_t bundle_count = request.ranks;
    if (ranks->is_int() && ranks->AsInt() > static_cast<int64_t>(bundle_count))
      return SpecError(below + "ranks", "must not be above the number of bundles, which is " +
                                            std::to_string(bundle_count));
    RT_ASSIGN_OR_RETURN(size_t some, ReadRanks(*ranks, bundle_count, below + "ranks"));
    request.ranks = static_cast<uint32_t>(some);
  }
  if (per_node != nullptr) {
    RT_ASSIGN_OR_RETURN(request.ranks_per_node,
                        ReadRanksPerNode(*per_node, json, request.ranks, below));
  }
  if (!request.gpu_types.empty() && request.Total().gpu == 0)
    return SpecError(below + "gpu_type", "is for requests that have gpus", "add gpu: 1");
  return request;
}

Json ToJson(const ResourceRequest& request) {
  Json json = ToJson(request.Total());
  Json bundles = Json::MakeArray();
  if (request.is_gang())
    for (const Resources& bundle : request.bundles) bundles.Append(ToJson(bundle));
  json.Set("ranks", request.ranks);
  if (!request.gpu_types.empty()) {
    Json types = Json::MakeArray();
    for (const std::string& type : request.gpu_types) types.Append(type);
    json.Set("gpu_type", std::move(types));
  }
  if (request.is_elastic())
    json.Set("ranks_bounds", Json(Json::Array{request.ranks_min, request.ranks_max}));
  if (request.ranks_per_node != 0) json.Set("ranks_per_node", request.ranks_per_node);
  json.Set("bundles", request.is_gang() ? std::move(bundles) : Json());
  json.Set("strategy", request.is_gang() ? Json(RequestNameOf(request.strategy)) : Json());
  return json;
}

std::string Describe(const ResourceRequest& request) {
  const std::string of_type =
      request.gpu_types.empty() ? "" : " of type " + Join(request.gpu_types, " or ");
  if (!request.is_gang()) return Describe(request.one()) + of_type;
  const std::vector<Resources>& bundles = request.bundles;
  const bool are_equal = std::equal(bundles.begin() + 1, bundles.end(), bundles.begin());
  std::vector<std::string> texts;
  for (size_t i = 0; i < (are_equal ? 1 : std::min(bundles.size(), kBundlesShown)); ++i)
    texts.push_back(Describe(bundles[i]));
  if (!are_equal && bundles.size() > kBundlesShown) texts.push_back("…");
  const std::string where = request.ranks_per_node != 0
                                ? std::to_string(request.ranks_per_node) + " on each node"
                                : RequestNameOf(request.strategy);
  return std::to_string(bundles.size()) + " bundles of " + Join(texts, "; ") + of_type + " (" +
         where + ")";
}

}  // namespace rt
