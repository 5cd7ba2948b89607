#include "common/yaml/node_pools.h"

#include <algorithm>
#include <optional>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/yaml/node_fields.h"

namespace rt {
namespace {

using PoolKeys = std::vector<std::string>;

const PoolKeys kMarketKeys = {"MarketType", "SpotOptions"};
const PoolKeys kSpotOptionsKeys = {"MaxPrice", "SpotInstanceType", "BlockDurationMinutes",
                                   "ValidUntil", "InstanceInterruptionBehavior"};
const PoolKeys kSpotKeys = {"fallback", "instance_types"};
const PoolKeys kFallbacks = {"on_demand", "none"};
constexpr double kPriceMax = 10'000;
constexpr size_t kMoreTypesMax = 20;

// "0.5", 0.5: a price as text; nothing when it is none.
std::optional<std::string> PriceOf(const Json& price) {
  if (price.is_number() && price.AsDouble() > 0 && price.AsDouble() <= kPriceMax)
    return FormatDouble(price.AsDouble());
  if (!price.is_string()) return std::nullopt;
  const std::string& text = price.AsString();
  const bool is_plain = !text.empty() && text.size() <= 12 && text[0] != '.' &&
                        text.find_first_not_of("0123456789.") == std::string::npos &&
                        std::count(text.begin(), text.end(), '.') <= 1;
  return is_plain ? std::optional<std::string>(text) : std::nullopt;
}

class PoolReader {
 public:
  PoolReader(const YamlDocument& document, const PoolDefaults& defaults)
      : document_(document), defaults_(defaults) {}

  absl::StatusOr<std::vector<NodePool>> Read() {
    std::vector<NodePool> pools;
    const Json* types = document_.value.Find("available_node_types");
    RT_RETURN_IF_ERROR(types == nullptr || types->is_null() ? ReadOldForm(pools)
                                                            : ReadNewForm(*types, pools));
    std::stable_sort(pools.begin(), pools.end(),
                     [](const NodePool& a, const NodePool& b) { return a.is_head && !b.is_head; });
    return pools;
  }

 private:
  absl::Status WrongPool(const std::string& path, const std::string& message,
                         const std::string& hint = "") const {
    return document_.At(Invalid(message, hint), path);
  }
  absl::Status CheckPoolKeys(const Json& json, const std::string& path,
                             const PoolKeys& known) const {
    if (!json.is_object()) return WrongPool(path, "'" + Excerpt(path) + "' must be a map of keys");
    for (const auto& [key, value] : json.object())
      if (std::find(known.begin(), known.end(), key) == known.end())
        return document_.At(Invalid("unknown key '" + Excerpt(key) + "'", DidYouMean(key, known)),
                            Below(path, key), true);
    return absl::OkStatus();
  }

  absl::Status ReadOldForm(std::vector<NodePool>& pools) const {
    for (const char* key : {"head_node", "worker_nodes"}) {
      const Json* config = document_.value.Find(key);
      if (config == nullptr || config->is_null()) continue;
      NodePool pool;
      pool.is_head = std::string_view(key) == "head_node";
      pool.name = pool.is_head ? "head" : "worker";
      pool.path = key;
      pool.idle_timeout_s = defaults_.idle_timeout_s;
      if (!pool.is_head) {
        pool.min_workers = defaults_.min_workers;
        pool.max_workers = defaults_.max_workers;
      }
      RT_RETURN_IF_ERROR(ReadConfig(*config, key, pool));
      pools.push_back(std::move(pool));
    }
    return absl::OkStatus();
  }

  absl::Status ReadNewForm(const Json& types, std::vector<NodePool>& pools) const {
    const std::string head = document_.value.GetString("head_node_type");
    for (const auto& [name, type] : types.object()) {
      const std::string path = "available_node_types/" + name;
      if (!type.is_object()) return WrongPool(path, "a node type must be a map of keys");
      NodePool pool;
      pool.name = name;
      pool.path = path;
      pool.is_head = name == head;
      pool.min_workers = static_cast<int>(type.GetInt("min_workers"));
      pool.max_workers =
          static_cast<int>(type.GetInt("max_workers", pool.is_head ? 0 : defaults_.max_workers));
      pool.idle_timeout_s = type.GetDouble("idle_timeout_s", defaults_.idle_timeout_s);
      RT_RETURN_IF_ERROR(ReadShape(type, path, pool));
      if (const Json* config = type.Find("node_config"); config != nullptr && !config->is_null())
        RT_RETURN_IF_ERROR(ReadConfig(*config, path + "/node_config", pool));
      RT_RETURN_IF_ERROR(ReadSpot(type, path, pool));
      RT_ASSIGN_OR_RETURN(pool.initialization_commands,
                          ReadOwn(type, path, "initialization_commands"));
      RT_ASSIGN_OR_RETURN(pool.worker_setup_commands, ReadOwn(type, path, "worker_setup_commands"));
      pools.push_back(std::move(pool));
    }
    return absl::OkStatus();
  }

  absl::Status ReadShape(const Json& type, const std::string& path, NodePool& pool) const {
    RT_ASSIGN_OR_RETURN(pool.resources,
                        ReadNodeResources(document_, type.Find("resources"), path + "/resources"));
    RT_ASSIGN_OR_RETURN(pool.labels,
                        ReadNodeLabels(document_, type.Find("labels"), path + "/labels"));
    const Json* price = type.Find(kPriceLabel);
    if (price == nullptr || price->is_null()) return absl::OkStatus();
    RT_RETURN_IF_ERROR(ReadPrice(*price, path + "/" + kPriceLabel, pool.price_per_hour));
    pool.labels += (pool.labels.empty() ? "" : ",") + (kPriceLabel + ("=" + pool.price_per_hour));
    return absl::OkStatus();
  }

  // Its names are the cloud's; only what rt decides by is looked at.
  absl::Status ReadConfig(const Json& config, const std::string& path, NodePool& pool) const {
    if (!config.is_object()) return WrongPool(path, "'" + path + "' must be a map of keys");
    pool.node_config = config;
    pool.config_path = path;
    for (const char* key : {"InstanceType", "ImageId"}) {
      const Json* value = config.Find(key);
      if (value == nullptr || value->is_null()) continue;
      if (!value->is_string() || value->AsString().empty())
        return WrongPool(path + "/" + key, std::string(key) + " must be a text");
    }
    pool.instance_type = config.GetString("InstanceType");
    // The one key that is required: whoever mistyped it is told so.
    if (pool.instance_type.empty())
      for (const auto& [key, value] : config.object())
        if (NearestWord(key, {"InstanceType"}).has_value())
          return document_.At(
              Invalid("unknown key '" + Excerpt(key) + "'", DidYouMean(key, {"InstanceType"})),
              Below(path, key), true);
    pool.image = config.GetString("ImageId");
    const Json* market = config.Find("InstanceMarketOptions");
    if (market == nullptr || market->is_null()) return absl::OkStatus();
    return ReadMarket(*market, path + "/InstanceMarketOptions", pool);
  }
  absl::Status ReadMarket(const Json& market, const std::string& path, NodePool& pool) const {
    RT_RETURN_IF_ERROR(CheckPoolKeys(market, path, kMarketKeys));
    const std::string kind = market.GetString("MarketType", "spot");
    if (kind == "capacity-block") return absl::OkStatus();  // Paid for in advance.
    if (kind != "spot")
      return WrongPool(path + "/MarketType", "unknown market '" + Excerpt(kind) + "'",
                       "MarketType: spot; without InstanceMarketOptions machines are on demand");
    pool.is_spot = true;
    const Json* options = market.Find("SpotOptions");
    if (options == nullptr || options->is_null()) return absl::OkStatus();
    RT_RETURN_IF_ERROR(CheckPoolKeys(*options, path + "/SpotOptions", kSpotOptionsKeys));
    const Json* price = options->Find("MaxPrice");
    if (price == nullptr || price->is_null()) return absl::OkStatus();
    return ReadPrice(*price, path + "/SpotOptions/MaxPrice", pool.max_price);
  }
  absl::Status ReadPrice(const Json& price, const std::string& path, std::string& out) const {
    const std::optional<std::string> text = PriceOf(price);
    if (!text.has_value())
      return WrongPool(path, "a price is a number of dollars per hour", "write it as in '0.35'");
    out = *text;
    return absl::OkStatus();
  }
  // Our own keys of a node type.
  absl::Status ReadSpot(const Json& type, const std::string& path, NodePool& pool) const {
    if (const Json* spot = type.Find("spot"); spot != nullptr && !spot->is_null()) {
      if (spot->is_bool()) {
        pool.is_spot = spot->AsBool();
      } else {
        RT_RETURN_IF_ERROR(CheckPoolKeys(*spot, path + "/spot", kSpotKeys));
        pool.is_spot = true;
        const std::string fallback = spot->GetString("fallback", "none");
        if (std::find(kFallbacks.begin(), kFallbacks.end(), fallback) == kFallbacks.end())
          return WrongPool(path + "/spot/fallback", "unknown fallback '" + Excerpt(fallback) + "'",
                           DidYouMean(fallback, kFallbacks));
        pool.falls_back = fallback == "on_demand";
        RT_RETURN_IF_ERROR(ReadTypes(spot->Find("instance_types"), path + "/spot", pool));
      }
    }
    const Json* price = type.Find("max_price");
    if (price == nullptr || price->is_null()) return absl::OkStatus();
    if (!pool.is_spot)
      return WrongPool(path + "/max_price", "max_price is a bound for spot machines",
                       "add 'spot: {fallback: on_demand}' to the node type");
    return ReadPrice(*price, path + "/max_price", pool.max_price);
  }
  absl::Status ReadTypes(const Json* types, std::string path, NodePool& pool) const {
    if (types == nullptr || types->is_null()) return absl::OkStatus();
    path += "/instance_types";
    if (!types->is_array() || types->array().size() > kMoreTypesMax)
      return WrongPool(path, "instance_types must be a list of at most 20 instance types",
                       "instance_types: [g5.xlarge, g6.xlarge]");
    for (size_t i = 0; i < types->array().size(); ++i) {
      const Json& type = types->array()[i];
      if (!type.is_string() || type.AsString().empty())
        return WrongPool(Below(path, std::to_string(i)), "an instance type must be a text");
      pool.more_types.push_back(type.AsString());
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<std::vector<std::string>>> ReadOwn(const Json& type,
                                                                  const std::string& path,
                                                                  const std::string& key) const {
    if (type.Find(key) == nullptr) return std::optional<std::vector<std::string>>();
    RT_ASSIGN_OR_RETURN(std::vector<std::string> commands,
                        ReadCommands(document_, type.Find(key), path + "/" + key));
    return std::optional(std::move(commands));
  }

  const YamlDocument& document_;
  const PoolDefaults& defaults_;
};

}  // namespace

absl::StatusOr<std::vector<NodePool>> ReadNodePools(const YamlDocument& document,
                                                    const PoolDefaults& defaults) {
  return PoolReader(document, defaults).Read();
}

}  // namespace rt
