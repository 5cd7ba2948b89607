#include "common/yaml/cluster_spec.h"

#include <algorithm>

#include "common/base/limits.h"
#include "common/base/quantity.h"
#include "common/base/strings.h"
#include "common/spec/resource_bounds.h"
#include "common/yaml/node_fields.h"
#include "common/yaml/unused_keys.h"

namespace rt {
namespace {

using Keys = std::vector<std::string>;

const Keys kTopKeys = {"cluster_name",
                       "max_workers",
                       "min_workers",
                       "initial_workers",
                       "autoscaling_mode",
                       "upscaling_speed",
                       "target_utilization_fraction",
                       "idle_timeout_minutes",
                       "provider",
                       "auth",
                       "docker",
                       "head_node_type",
                       "available_node_types",
                       "head_node",
                       "worker_nodes",
                       "file_mounts",
                       "cluster_synced_files",
                       "file_mounts_sync_continuously",
                       "rsync_exclude",
                       "rsync_filter",
                       "initialization_commands",
                       "setup_commands",
                       "head_setup_commands",
                       "worker_setup_commands",
                       "head_start_ray_commands",
                       "worker_start_ray_commands",
                       "metadata",
                       "no_restart",
                       "checkpoint_store",
                       "journal",
                       "autoscaling",
                       "elastic"};
const Keys kNodeTypeKeys = {"node_config", "resources", "labels", "min_workers", "max_workers",
    "idle_timeout_s", "initialization_commands", "worker_setup_commands", "docker", "spot",
    "max_price", "price_per_hour", "slots"};
const Keys kAuthKeys = {"ssh_user", "ssh_public_key", "ssh_private_key", "ssh_proxy_command"};
const Keys kDockerKeys = {"image", "container_name", "pull_before_run", "run_options",
    "head_image", "head_run_options", "worker_image", "worker_run_options",
    "disable_automatic_runtime_detection", "disable_shm_size_detection", "use_podman"};
const Keys kJournalKeys = {"url", "ship", "key_file"};
const Keys kShipKeys = {"to", "mode"};
const Keys kStoreKeys = {"url", "endpoint", "region", "keep_garbage", "max_bandwidth",
    "quota"};
const Keys kAutoscalingKeys = {"hooks", "hook_timeout"};
const Keys kHookKeys = {"scale_up", "scale_down", "node_ready", "preempted"};
const Keys kProviders = {"local", "ssh", "aws", "gcp", "azure", "kubernetes", "kuberay", "slurm",
    "command", "external", "vsphere", "aliyun", "fake_multinode", "spark", "readonly"};

constexpr double kNumberMax = 1e7;
constexpr double kHookTimeoutMax = 86'400;
// Of a cluster, which a head serves, and on one machine, where each is a process with its own port.
constexpr int kWorkersMax = 10'000;
constexpr int kLocalWorkersMax = 1'000;

class Reader {
 public:
  explicit Reader(const YamlDocument& document) : document_(document) {}

  absl::StatusOr<ClusterSpec> Read() {
    RT_RETURN_IF_ERROR(CheckTop());
    ClusterSpec spec;
    const Json& json = document_.value;
    RT_RETURN_IF_ERROR(ReadName(spec));
    RT_RETURN_IF_ERROR(ReadProvider(spec));
    if (spec.provider_type == "local") workers_max_ = kLocalWorkersMax;
    RT_ASSIGN_OR_RETURN(std::optional<int> most, ReadCount(json, "", "max_workers"));
    RT_ASSIGN_OR_RETURN(std::optional<int> least, ReadCount(json, "", "min_workers"));
    spec.max_workers = most.value_or(std::max(2, least.value_or(0)));
    spec.min_workers = least.value_or(0);
    spec.says_min_workers = least.has_value();
    if (spec.min_workers > spec.max_workers)
      return document_.At(Invalid("min_workers is " + std::to_string(spec.min_workers) +
                                  ", above max_workers " + std::to_string(spec.max_workers)),
                          "min_workers");
    RT_RETURN_IF_ERROR(ReadNodeTypes(spec));
    RT_RETURN_IF_ERROR(ReadHosts(spec, most, least));
    RT_RETURN_IF_ERROR(ReadScaling(spec));
    RT_RETURN_IF_ERROR(ReadPools(spec));
    RT_RETURN_IF_ERROR(ReadJournal(spec));
    RT_RETURN_IF_ERROR(ReadElastic(spec));
    RT_RETURN_IF_ERROR(ReadStore(spec));
    for (const char* key : {"head_start_ray_commands", "worker_start_ray_commands"})
      if (json.Find(key) != nullptr)
        spec.warnings.push_back(std::string(key) + " is ignored: rt starts its own daemons");
    if (spec.provider_type == "local") WarnOfUnused(spec);
    spec.document = document_;
    return spec;
  }

 private:
  absl::Status Wrong(std::string_view path, const std::string& message,
                     const std::string& hint = "") const {
    return document_.At(Invalid(message, hint), path);
  }
  absl::Status CheckKeys(const Json& json, const std::string& path, const Keys& known) const {
    if (json.is_null()) return absl::OkStatus();
    if (!json.is_object()) return Wrong(path, "'" + Excerpt(path) + "' must be a map of keys");
    for (const auto& [key, value] : json.object()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      return document_.At(Invalid("unknown key '" + Excerpt(key) + "'", DidYouMean(key, known)),
                          path.empty() ? key : path + "/" + key, true);
    }
    return absl::OkStatus();
  }
  absl::Status CheckTop() const {
    const Json& json = document_.value;
    if (!json.is_object()) return Wrong("", "a cluster is a map of keys");
    RT_RETURN_IF_ERROR(CheckKeys(json, "", kTopKeys));
    if (const Json* auth = json.Find("auth"))
      RT_RETURN_IF_ERROR(CheckKeys(*auth, "auth", kAuthKeys));
    if (const Json* docker = json.Find("docker"))
      RT_RETURN_IF_ERROR(CheckKeys(*docker, "docker", kDockerKeys));
    return absl::OkStatus();
  }
  void WarnOfUnused(ClusterSpec& spec) const {
    const std::string warning = UnusedKeysWarning(UnusedKeysOfLocal(
        document_.value, {.worker_type = spec.worker_type ? spec.worker_type->name : "",
                          .workers_by_demand = LocalPool(spec, 1).has_value()}));
    if (!warning.empty()) spec.warnings.push_back(warning);
  }
  absl::Status ReadName(ClusterSpec& spec) const {
    const Json* name = document_.value.Find("cluster_name");
    if (name == nullptr)
      return Wrong("", "cluster_name is required", "add a line such as 'cluster_name: demo'");
    if (!name->is_string() || !IsClusterName(name->AsString()))
      return Wrong("cluster_name",
                   "cluster_name must be at most 64 letters, digits, '-', '_' and '.'");
    spec.cluster_name = name->AsString();
    return absl::OkStatus();
  }
  static bool IsClusterName(const std::string& name) {
    auto allowed = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
    };
    return !name.empty() && name.size() <= 64 && name[0] != '.' && name[0] != '-' &&
           std::all_of(name.begin(), name.end(), allowed);
  }
  absl::Status ReadProvider(ClusterSpec& spec) const {
    const Json* provider = document_.value.Find("provider");
    if (provider == nullptr)
      return Wrong("", "provider is required", "add 'provider: {type: local}' for this machine");
    const Json* type = provider->Find("type");
    if (type == nullptr || !type->is_string())
      return Wrong("provider", "provider needs a type", "for this machine: 'type: local'");
    spec.provider_type = type->AsString();
    if (std::find(kProviders.begin(), kProviders.end(), spec.provider_type) == kProviders.end())
      return Wrong("provider/type", "unknown provider type '" + spec.provider_type + "'",
                   DidYouMean(spec.provider_type, kProviders));
    bool addressed = provider->Find("head_ip") != nullptr ||
                     provider->Find("worker_ips") != nullptr ||
                     provider->Find("coordinator_address") != nullptr;
    if (spec.provider_type == "local" && addressed) spec.provider_type = "ssh";
    return absl::OkStatus();
  }
  // Ray's defaults for a file that names no kind of machine: spot workers.
  static NodePool UsualPool(const ClusterSpec& spec, bool is_head) {
    NodePool pool;
    pool.name = is_head ? "head" : "worker";
    pool.is_head = is_head;
    pool.instance_type = "m5.large";
    pool.node_config = Json::MakeObject({{"InstanceType", pool.instance_type}});
    pool.is_spot = !is_head;
    pool.min_workers = is_head ? 0 : spec.min_workers;
    pool.max_workers = is_head ? 0 : spec.max_workers;
    pool.idle_timeout_s = spec.idle_timeout_s;
    return pool;
  }
  std::string PathOfPool(const NodePool& pool) const {
    if (document_.value.Find("available_node_types") != nullptr)
      return "available_node_types/" + pool.name;
    return pool.is_head ? "head_node" : "worker_nodes";
  }
  absl::Status ReadPools(ClusterSpec& spec) const {
    RT_ASSIGN_OR_RETURN(spec.pools,
                        ReadNodePools(document_, {.min_workers = spec.min_workers,
                                                  .max_workers = spec.max_workers,
                                                  .idle_timeout_s = spec.idle_timeout_s}));
    if (spec.provider_type != "aws") return absl::OkStatus();
    const bool has_head = !spec.pools.empty() && spec.pools[0].is_head;
    const Json* types = document_.value.Find("available_node_types");
    if (!has_head && types != nullptr && !types->is_null())
      return Wrong("available_node_types", "head_node_type is missing",
                   "name the node type of the head: head_node_type: " +
                       (spec.pools.empty() ? "head" : spec.pools[0].name));
    if (spec.pools.empty()) spec.pools.push_back(UsualPool(spec, false));
    if (!has_head) spec.pools.insert(spec.pools.begin(), UsualPool(spec, true));
    int least = 0;
    for (const NodePool& pool : spec.pools) least += pool.min_workers;
    if (least > spec.max_workers)
      return Wrong("max_workers",
                   "max_workers " + std::to_string(spec.max_workers) +
                       " is below the min_workers of all node types together (" +
                       std::to_string(least) + ")",
                   "max_workers: " + std::to_string(least));
    for (const NodePool& pool : spec.pools)
      if (pool.instance_type.empty())
        return Wrong(PathOfPool(pool), "'" + pool.name + "' does not say its InstanceType",
                     "node_config: {InstanceType: m5.large}");
    const Json& provider = *document_.value.Find("provider");
    const Json* region = provider.Find("region");
    if (region != nullptr && !region->is_string())
      return Wrong("provider/region", "region must be a text, as in us-west-2");
    spec.region = provider.GetString("region", "us-west-2");  // Ray's default.
    return absl::OkStatus();
  }
  // Hosts are there: unless the file says otherwise, all of them are used, and all are waited for.
  absl::Status ReadHosts(ClusterSpec& spec, std::optional<int> most, std::optional<int> least) {
    RT_ASSIGN_OR_RETURN(spec.setup, ReadSetup(document_));
    if (spec.provider_type != "ssh") return absl::OkStatus();
    std::string resources;
    if (spec.worker_type && spec.worker_type->resources && !spec.worker_type->resources->IsZero())
      resources = NodeFlag(*spec.worker_type->resources, spec.worker_type->says_cpu);
    RT_ASSIGN_OR_RETURN(spec.hosts, ReadHostList(document_, resources));
    const int workers = static_cast<int>(spec.hosts.hosts.size()) - 1;
    spec.max_workers = std::min(workers, most.value_or(workers));
    spec.hosts.hosts.resize(static_cast<size_t>(spec.max_workers) + 1);
    spec.min_workers = std::min(spec.max_workers, least.value_or(spec.max_workers));
    const Json* docker = document_.value.Find("docker");
    if (docker != nullptr && !docker->GetString("image").empty())
      spec.warnings.emplace_back(
          "docker is not used by this release: commands and trials run on the hosts themselves");
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<int>> ReadCount(const Json& json, const std::string& path,
                                               const std::string& key) const {
    const Json* value = json.Find(key);
    if (value == nullptr || value->is_null()) return std::optional<int>();
    const std::string where = path.empty() ? key : path + "/" + key;
    const auto place = document_.places.find(where);
    const bool is_decimal = place == document_.places.end() || place->second.is_decimal;
    if (!is_decimal || !value->is_int() || value->AsInt() < 0 || value->AsInt() > workers_max_)
      return Wrong(where, key + " must be a whole number, 0 to " + std::to_string(workers_max_));
    return std::optional<int>(static_cast<int>(value->AsInt()));
  }
  absl::StatusOr<double> ReadNumber(const Json& json, const std::string& path,
                                    const std::string& key, double otherwise) const {
    const Json* value = json.Find(key);
    if (value == nullptr || value->is_null()) return otherwise;
    if (!value->is_number() || !(value->AsDouble() >= 0 && value->AsDouble() <= kNumberMax))
      return Wrong(path.empty() ? key : path + "/" + key, key + " must be a number, 0 or more");
    return value->AsDouble();
  }
  // A command is executed as it is written, without a shell.
  absl::Status CheckHook(const std::string& name, const Json& argv) const {
    const bool is_list = argv.is_array() && !argv.array().empty() &&
                         std::all_of(argv.array().begin(), argv.array().end(),
                                     [](const Json& argument) { return argument.is_string(); });
    if (is_list) return absl::OkStatus();
    return Wrong("autoscaling/hooks/" + name,
                 "a hook must be a list of texts: the program and its arguments",
                 "write " + name + ": [/usr/local/bin/notify, --quiet]");
  }
  absl::Status ReadHooks(const Json& autoscaling, ClusterSpec& spec) const {
    RT_RETURN_IF_ERROR(CheckKeys(autoscaling, "autoscaling", kAutoscalingKeys));
    Json hooks = Json::MakeObject();
    if (const Json* found = autoscaling.Find("hooks"); found != nullptr && !found->is_null()) {
      RT_RETURN_IF_ERROR(CheckKeys(*found, "autoscaling/hooks", kHookKeys));
      for (const auto& [name, argv] : found->object()) RT_RETURN_IF_ERROR(CheckHook(name, argv));
      hooks = *found;
    }
    const Json* timeout = autoscaling.Find("hook_timeout");
    const std::optional<double> seconds =
        timeout == nullptr || timeout->is_null() ? 30 : SecondsOf(*timeout);
    if (!seconds.has_value() || *seconds <= 0 || *seconds > kHookTimeoutMax)
      return Wrong("autoscaling/hook_timeout",
                   "hook_timeout must be a time above 0, at most a day, as in 30s");
    spec.autoscaling =
        Json::MakeObject({{"hooks", std::move(hooks)}, {"hook_timeout_s", *seconds}});
    return absl::OkStatus();
  }
  absl::Status ReadScaling(ClusterSpec& spec) const {
    const Json& json = document_.value;
    RT_ASSIGN_OR_RETURN(double minutes, ReadNumber(json, "", "idle_timeout_minutes", 5));
    spec.idle_timeout_s = minutes * 60;
    RT_ASSIGN_OR_RETURN(spec.upscaling_speed, ReadNumber(json, "", "upscaling_speed", 1));
    if (spec.worker_type && spec.worker_type->min_workers) {
      const int most =
          std::min(spec.max_workers, spec.worker_type->max_workers.value_or(spec.max_workers));
      if (*spec.worker_type->min_workers > most)
        return Wrong("available_node_types/" + spec.worker_type->name + "/min_workers",
                     "min_workers is " + std::to_string(*spec.worker_type->min_workers) +
                         ", above max_workers " + std::to_string(most));
    }
    const Json* autoscaling = json.Find("autoscaling");
    if (autoscaling == nullptr || autoscaling->is_null()) return absl::OkStatus();
    RT_RETURN_IF_ERROR(ReadHooks(*autoscaling, spec));
    const bool has_hooks = !spec.autoscaling.Find("hooks")->object().empty();
    if (has_hooks && spec.provider_type == "local" && !LocalPool(spec, 1).has_value())
      spec.warnings.emplace_back(
          "autoscaling.hooks are never called: all workers run all the time. Set min_workers below "
          "max_workers to have them come and go");
    return absl::OkStatus();
  }
  // Workers get them as a flag, "cpu=2,fpga=1".
  absl::Status CheckCustom(const Json& json, const std::string& path,
                           const Resources& resources) const {
    if (resources.custom.size() > limits::kNodeNamesMax)
      return Wrong(path, "a node has at most " + std::to_string(limits::kNodeNamesMax) +
                             " custom resources");
    for (const auto& [name, units] : resources.custom) {
      if (name.find_first_of(",=") == std::string::npos && Trim(name) == name) continue;
      const std::string where = json.Find(name) != nullptr ? path + "/" : path + "/custom/";
      return document_.At(Invalid("'" + Excerpt(name) + "' cannot be the name of a resource",
                                  "a name has no ',' and no '=', and no space at either end"),
                          where + name, true);
    }
    return absl::OkStatus();
  }
  absl::StatusOr<NodeType> ReadNodeType(const std::string& name, const Json& json) const {
    std::string path = "available_node_types/" + name;
    RT_RETURN_IF_ERROR(CheckKeys(json, path, kNodeTypeKeys));
    NodeType type;
    type.name = name;
    RT_ASSIGN_OR_RETURN(type.min_workers, ReadCount(json, path, "min_workers"));
    RT_ASSIGN_OR_RETURN(type.max_workers, ReadCount(json, path, "max_workers"));
    if (json.Find("idle_timeout_s") != nullptr) {
      RT_ASSIGN_OR_RETURN(type.idle_timeout_s, ReadNumber(json, path, "idle_timeout_s", 0));
    }
    const Json* resources = json.Find("resources");
    if (resources == nullptr || resources->is_null()) return type;
    absl::StatusOr<Resources> parsed = ParseResources(*resources, path + "/resources");
    if (!parsed.ok()) {
      std::string where = PositionOf(parsed.status()).file;
      return document_.At(parsed.status(), where.empty() ? path + "/resources" : where);
    }
    RT_RETURN_IF_ERROR(CheckCustom(*resources, path + "/resources", *parsed));
    type.resources = *std::move(parsed);
    type.says_cpu = resources->Find("cpu") != nullptr || resources->Find("CPU") != nullptr;
    return type;
  }
  absl::Status ReadNodeTypes(ClusterSpec& spec) const {
    const Json* types = document_.value.Find("available_node_types");
    if (types == nullptr || types->is_null()) return absl::OkStatus();
    if (!types->is_object())
      return Wrong("available_node_types", "available_node_types must be a map of node types");
    std::string head = document_.value.GetString("head_node_type");
    if (!head.empty() && types->Find(head) == nullptr) {
      Keys names;
      for (const auto& [name, json] : types->object()) names.push_back(name);
      return Wrong("head_node_type", "head_node_type '" + head + "' is not an available node type",
                   DidYouMean(head, names));
    }
    for (const auto& [name, json] : types->object()) {
      RT_ASSIGN_OR_RETURN(NodeType type, ReadNodeType(name, json));
      bool only = types->object().size() == 1;
      if ((name != head || only) && !spec.worker_type.has_value())
        spec.worker_type = std::move(type);
    }
    return absl::OkStatus();
  }

  // A URL alone is short for {url: URL}. The head judges what it says.
  absl::Status ReadJournal(ClusterSpec& spec) const {
    const Json* journal = document_.value.Find("journal");
    if (journal == nullptr || journal->is_null()) return absl::OkStatus();
    spec.journal = *journal;
    if (journal->is_string()) spec.journal = Json::MakeObject({{"url", journal->AsString()}});
    RT_RETURN_IF_ERROR(CheckKeys(spec.journal, "journal", kJournalKeys));
    if (const Json* ship = spec.journal.Find("ship"))
      RT_RETURN_IF_ERROR(CheckKeys(*ship, "journal/ship", kShipKeys));
    // Here, before it is copied into the head's configuration.
    std::string url = spec.journal.GetString("url");
    std::string user = url.substr(0, url.find('@'));
    bool secret = url.find("password=") != std::string::npos ||
                  (user != url && user.find(':', user.find("://") + 3) != std::string::npos);
    if (!secret) return absl::OkStatus();
    return Wrong("journal", "a password in the journal's URL ends up in files and logs",
                 "put it into a file that only you can read: postgres://…?passfile=FILE");
  }

  absl::Status ReadElastic(ClusterSpec& spec) const {
    const Json* elastic = document_.value.Find("elastic");
    if (elastic == nullptr || elastic->is_null()) return absl::OkStatus();
    RT_RETURN_IF_ERROR(CheckKeys(*elastic, "elastic", {"interval_s"}));
    const Json* interval = elastic->Find("interval_s");
    const bool is_number = interval == nullptr || interval->is_number();
    const double seconds = elastic->GetDouble("interval_s", 30);
    if (!is_number || !(seconds >= 1 && seconds <= 86'400))
      return Wrong("elastic/interval_s", "the interval must be from 1 to 86400 seconds",
                   "write the least time between two sizes of an elastic trial, such as 30");
    spec.elastic = *elastic;
    return absl::OkStatus();
  }

  absl::Status CheckQuota(const Json& store) const {
    const Json* quota = store.Find("quota");
    if (quota == nullptr || quota->is_null()) return absl::OkStatus();
    const std::optional<Bytes> bytes = BytesOf(*quota);
    if (bytes.has_value() && *bytes >= limits::kStoreQuotaMin) return absl::OkStatus();
    return Wrong("checkpoint_store/quota", "the quota must be a size of at least 1 MiB",
                 "write 500GiB, for example; without a quota only the disk limits the store");
  }
  static bool IsOwnStore(const Json& store) {
    const Keys known = {"keep_garbage", "quota"};
    return !store.object().empty() &&
           std::all_of(store.object().begin(), store.object().end(), [&](const auto& item) {
             return std::find(known.begin(), known.end(), item.first) != known.end();
           });
  }

  // As ReadJournal.
  absl::Status ReadStore(ClusterSpec& spec) const {
    const Json* store = document_.value.Find("checkpoint_store");
    if (store == nullptr || store->is_null()) return absl::OkStatus();
    spec.checkpoint_store = *store;
    if (store->is_string())
      spec.checkpoint_store = Json::MakeObject({{"url", store->AsString()}});
    RT_RETURN_IF_ERROR(CheckKeys(spec.checkpoint_store, "checkpoint_store", kStoreKeys));
    RT_RETURN_IF_ERROR(CheckQuota(spec.checkpoint_store));
    const std::string url = spec.checkpoint_store.GetString("url");
    if (url.starts_with("s3://") || url.starts_with("/")) return absl::OkStatus();
    // The head's own store has neither endpoint nor region nor line.
    if (IsOwnStore(spec.checkpoint_store)) return absl::OkStatus();
    return Wrong("checkpoint_store", "checkpoints cannot be stored in '" + url + "'",
                 "write an absolute directory, or s3://bucket/prefix");
  }

  const YamlDocument& document_;
  int workers_max_ = kWorkersMax;
};

}  // namespace

absl::StatusOr<ClusterSpec> LoadCluster(const YamlDocument& document) {
  return Reader(document).Read();
}

absl::StatusOr<ClusterSpec> LoadCluster(const std::string& filename) {
  RT_ASSIGN_OR_RETURN(YamlDocument document, ParseYamlFile(filename));
  return LoadCluster(document);
}

// Of the machine's cpus: programs that wait for disks and networks share a cpu without harm.
constexpr double kOvercommitAllowed = 4;

// The most workers, and what each of them has.
static std::pair<int, Resources> LocalShape(const ClusterSpec& spec, int cpus) {
  int count = spec.max_workers;
  Resources each;
  if (spec.worker_type.has_value()) {
    count = std::min(count, spec.worker_type->max_workers.value_or(count));
    if (spec.worker_type->resources.has_value()) each = *spec.worker_type->resources;
  }
  bool says_cpu = spec.worker_type.has_value() && spec.worker_type->says_cpu;
  if (!says_cpu) each.cpu = std::max(1, cpus / std::max(1, count)) * kUnit;
  return {count, std::move(each)};
}

std::vector<WorkerShape> LocalWorkers(const ClusterSpec& spec, int cpus) {
  const auto [count, each] = LocalShape(spec, cpus);
  std::vector<WorkerShape> workers;
  for (int i = 1; i <= count; ++i) workers.push_back({"worker-" + std::to_string(i), ToFlag(each)});
  return workers;
}

std::string OvercommitWarning(const ClusterSpec& spec, int cpus) {
  const auto [count, each] = LocalShape(spec, cpus);
  const double offered = static_cast<double>(count) * static_cast<double>(each.cpu) / kUnit;
  if (offered <= kOvercommitAllowed * std::max(1, cpus)) return "";
  return std::to_string(count) + " workers with cpu=" + FormatUnits(each.cpu) +
         " offer more cpus than this machine's " + std::to_string(cpus) +
         ": trials share them. Lower max_workers, or cpu in the node type's resources";
}

std::optional<PoolShape> LocalPool(const ClusterSpec& spec, int cpus) {
  const auto [count, each] = LocalShape(spec, cpus);
  std::optional<int> least;
  if (spec.says_min_workers) least = spec.min_workers;
  if (spec.worker_type && spec.worker_type->min_workers) least = spec.worker_type->min_workers;
  if (!least.has_value() || *least >= count) return std::nullopt;
  const std::optional<double> idle_timeout_s =
      spec.worker_type ? spec.worker_type->idle_timeout_s : std::nullopt;
  return PoolShape{.name = spec.worker_type ? spec.worker_type->name : "worker",
                   .resources = ToFlag(each),
                   .min_workers = *least,
                   .max_workers = count,
                   .idle_timeout_s = idle_timeout_s.value_or(spec.idle_timeout_s),
                   .upscaling_speed = spec.upscaling_speed};
}

}  // namespace rt
