#include "head/config.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "common/base/json.h"
#include "common/base/limits.h"
#include "common/base/quantity.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/open_objects.h"
#include "common/provider/provider_registry.h"
#include "common/run/files.h"
#include "common/spec/experiment_spec.h"
#include "head/journal/postgres_journal.h"

namespace rt {
namespace {

constexpr Bytes kBandwidthMin = 65'536;  // A second.

// ".../clusters/demo/head" is the head of the cluster "demo".
std::string DefaultName(const std::string& state_dir) {
  std::filesystem::path path(state_dir);
  return (path.filename() == "head" ? path.parent_path() : path).filename().string();
}

absl::Status ReadPaths(const Json& json, const std::string& key, std::vector<std::string>& roots) {
  if (!json.is_array()) return Invalid(key + " must be a list of paths");
  for (const Json& root : json.array()) {
    if (!root.is_string() || !root.AsString().starts_with('/'))
      return Invalid(key + ": " + root.Dump() + " is not an absolute path");
    roots.push_back(root.AsString());
  }
  return absl::OkStatus();
}

absl::Status ReadShip(const Json& json, JournalConfig& journal) {
  RT_RETURN_IF_ERROR(CheckKeys(json, {"to", "mode"}, "journal/ship"));
  journal.ship_to = json.GetString("to");
  RT_RETURN_IF_ERROR(Annotate(CheckObjectsUrl(journal.ship_to), "journal/ship/to"));
  const std::string mode = json.GetString("mode", "async");
  if (mode != "async" && mode != "sync")
    return Invalid("journal/ship/mode is async or sync, not '" + mode + "'");
  journal.sync = mode == "sync";
  if (!journal.url.empty())
    return Invalid("a journal in PostgreSQL is not shipped", "use the database's replication");
  if (journal.key_file.empty())
    return Invalid("a journal that is shipped needs journal/key_file",
                   "name a file that the head may make; it seals the cluster's CA");
  return absl::OkStatus();
}

absl::Status ReadJournal(const Json& json, JournalConfig& journal) {
  RT_RETURN_IF_ERROR(CheckKeys(json, {"url", "ship", "key_file", "snapshot_every"}, "journal"));
  journal.url = json.GetString("url");
  journal.key_file = json.GetString("key_file");
  if (!journal.key_file.empty() && journal.key_file[0] != '/')
    return Invalid("journal/key_file must be an absolute path");
  const Json* every = json.Find("snapshot_every");
  if (every != nullptr) {
    if (!every->is_int() || every->AsInt() < 1)
      return Invalid("journal/snapshot_every must be a number of events");
    journal.snapshot_every = static_cast<uint64_t>(every->AsInt());
  }
  const Json* ship = json.Find("ship");
  if (ship != nullptr && !ship->is_null()) RT_RETURN_IF_ERROR(ReadShip(*ship, journal));
  if (journal.url.empty()) return absl::OkStatus();
  if (!IsPostgresUrl(journal.url))
    return Invalid("journal/url must begin with postgres://", "leave it out for SQLite");
  return Annotate(CheckPostgresUrl(journal.url), "journal/url");
}

// Of checkpoint_store; what is absent stays as it is.
absl::Status ReadBytes(const Json& json, const std::string& key, Bytes least, Bytes& value) {
  const Json* found = json.Find(key);
  if (found == nullptr || found->is_null()) return absl::OkStatus();
  const std::optional<Bytes> bytes = BytesOf(*found);
  if (!bytes.has_value() || *bytes < least)
    return Invalid("checkpoint_store/" + key + " must be bytes, " + BytesText(least) +
                   " or more, as in 100MiB");
  value = *bytes;
  return absl::OkStatus();
}

absl::Status ReadStore(const Json& json, StoreConfig& store) {
  RT_RETURN_IF_ERROR(
      CheckKeys(json, {"url", "endpoint", "region", "keep_garbage", "max_bandwidth", "quota"},
                "checkpoint_store"));
  store.url = json.GetString("url");
  store.endpoint = json.GetString("endpoint");
  store.region = json.GetString("region");
  if (!store.url.empty() && store.url[0] != '/' && !store.url.starts_with("s3://"))
    return Invalid("checkpoint_store/url must be an absolute directory or s3://bucket/prefix");
  RT_RETURN_IF_ERROR(ReadBytes(json, "max_bandwidth", kBandwidthMin, store.bytes_per_second));
  RT_RETURN_IF_ERROR(ReadBytes(json, "quota", limits::kStoreQuotaMin, store.quota));
  const Json* garbage = json.Find("keep_garbage");
  if (garbage == nullptr || garbage->is_null()) return absl::OkStatus();
  const std::optional<double> seconds = SecondsOf(*garbage);
  if (!seconds.has_value() || *seconds < 1 || *seconds > 1e8)
    return Invalid("checkpoint_store/keep_garbage must be a time of a second or more, as in 1h");
  store.keep_garbage = static_cast<Millis>(*seconds * 1000);
  return absl::OkStatus();
}

absl::Status ReadUnattended(const Json& json, LeaseRules& rules) {
  RT_RETURN_IF_ERROR(CheckKeys(json, {"lease_s", "keep_s", "stop_work", "end_file"}, "unattended"));
  const double lease_s = json.GetDouble("lease_s", 0), keep_s = json.GetDouble("keep_s", 0);
  constexpr double kMax = limits::kDrainMax / 1'000.0;
  if (!(lease_s >= 1 && lease_s <= kMax) || !(keep_s >= 0 && keep_s <= kMax))
    return Invalid("unattended: lease_s is 1 s or more, keep_s 0 or more, both at most 30 days");
  rules = {.lease = static_cast<Millis>(lease_s * 1'000),
           .keep = static_cast<Millis>(keep_s * 1'000),
           .stops_work = json.GetBool("stop_work", false),
           .end_file = json.GetString("end_file")};
  if (!rules.end_file.empty() && rules.end_file[0] != '/')
    return Invalid("unattended/end_file must be an absolute path");
  return absl::OkStatus();
}

absl::Status ReadElastic(const Json& json, Millis& interval) {
  RT_RETURN_IF_ERROR(CheckKeys(json, {"interval_s"}, "elastic"));
  const double seconds = json.GetDouble("interval_s", 30);
  if (!(seconds >= 1 && seconds <= 86'400))
    return Invalid("elastic/interval_s must be from 1 to 86400 seconds");
  interval = static_cast<Millis>(seconds * 1'000);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<HeadConfig> ReadHeadConfig(const std::string& file, const std::string& state_dir) {
  HeadConfig config{.cluster_name = DefaultName(state_dir), .results_root = state_dir + "/results"};
  if (file.empty()) return config;
  RT_ASSIGN_OR_RETURN(std::string text, ReadFile(file, Bytes{limits::kYamlBytesMax}));
  absl::StatusOr<Json> json = Json::Parse(text);
  if (!json.ok()) return Annotate(json.status(), file);
  absl::Status status = CheckKeys(
      *json,
      {"cluster_name", "results_root", "results_roots", "provider", "pools", "max_workers",
       "autoscaling", "journal", "checkpoint_store", "mounts", "unattended", "elastic"},
      "");
  if (status.ok()) {
    config.cluster_name = json->GetString("cluster_name", config.cluster_name);
    config.results_root = json->GetString("results_root", config.results_root);
    if (config.results_root.empty() || config.results_root[0] != '/')
      status = Invalid("results_root must be an absolute path");
  }
  const Json* provider = json->Find("provider");
  if (status.ok() && provider != nullptr && !provider->is_null()) {
    absl::StatusOr<std::unique_ptr<ProviderSetup>> setup = ReadProvider(*provider);
    status = setup.status();
    if (setup.ok()) config.provider = *std::move(setup);
  }
  if (status.ok()) status = ReadScaling(*json, config.scaling);
  const Json* elastic = json->Find("elastic");
  if (status.ok() && elastic != nullptr && !elastic->is_null())
    status = ReadElastic(*elastic, config.elastic_interval);
  if (status.ok() && !config.scaling.pools.empty() && config.provider == nullptr)
    status = Invalid("pools need a provider that makes their nodes");
  if (const Json* roots = json->Find("results_roots"); status.ok() && roots != nullptr) {
    status = ReadPaths(*roots, "results_roots", config.results_roots);
  } else if (config.provider != nullptr && config.provider->SharesAccount()) {
    // Trials run under this head's account, and may write wherever it may.
    config.results_roots = {"/"};
  }
  const Json* journal = json->Find("journal");
  if (status.ok() && journal != nullptr && !journal->is_null())
    status = ReadJournal(*journal, config.journal);
  const Json* store = json->Find("checkpoint_store");
  if (status.ok() && store != nullptr && !store->is_null())
    status = ReadStore(*store, config.store);
  if (const Json* mounts = json->Find("mounts"); status.ok() && mounts != nullptr)
    status = ReadPaths(*mounts, "mounts", config.mounts);
  const Json* unattended = json->Find("unattended");
  if (status.ok() && unattended != nullptr && !unattended->is_null())
    status = ReadUnattended(*unattended, config.unattended);
  if (!status.ok()) return Annotate(status, file);
  return config;
}

absl::StatusOr<ResultRoots> ResultRootsOf(const HeadConfig& config, const std::string& state_dir) {
  ResultRoots::Directories directories{.results_root = config.results_root,
                                       .others = config.results_roots,
                                       .guarded = {state_dir}};
  const std::filesystem::path state(state_dir);
  const std::filesystem::path clusters = state.parent_path().parent_path();
  if (state.filename() == "head" && clusters.filename() == "clusters")
    directories.guarded.push_back(clusters.parent_path().string());
  const char* home = std::getenv("HOME");
  if (const char* own = std::getenv("RT_HOME"); own != nullptr && own[0] == '/') {
    directories.guarded.emplace_back(own);
  } else if (home != nullptr && home[0] == '/') {
    directories.guarded.push_back(home + std::string("/.rt"));
  }
  for (const std::string& store : {config.store.url, config.journal.ship_to})
    if (store.starts_with('/')) directories.guarded.push_back(store);
  ResultRoots roots(std::move(directories));
  RT_RETURN_IF_ERROR(roots.Check());
  return roots;
}

absl::StatusOr<std::vector<Resources>> NodeTypes(const HeadConfig& config) {
  if (config.provider == nullptr) return std::vector<Resources>{};
  RT_ASSIGN_OR_RETURN(std::vector<Resources> types, config.provider->NodeSizes());
  for (const PoolSpec& pool : config.scaling.pools)
    types.insert(types.end(), std::min(pool.max_workers, limits::kPlannedNodesMax),
                 config.provider->SizeOf(pool));
  return types;
}

}  // namespace rt
