#include "cli/client/archive.h"

#include <algorithm>
#include <filesystem>

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/base/time.h"
#include "common/run/files.h"

namespace rt {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kConfigBytesMax = 1 << 20;

// The URL without the password of "scheme://user:password@host/…".
std::string WithoutPassword(std::string url) {
  const size_t user = url.find("://");
  const size_t at = user == std::string::npos ? user : url.find('@', user);
  const size_t colon = at == std::string::npos ? at : url.find(':', user + 3);
  if (colon != std::string::npos && colon < at) url.erase(colon, at - colon);
  return url;
}

std::string ArchiveRoot(const Home& home) { return home.root() + "/archive"; }

// Files that a later head and its workers make anew: pid files, and copies of what the store has.
absl::Status RemoveTransient(const std::string& directory) {
  for (const char* name : {"/up", "/kept", "/start-lock"})
    RT_RETURN_IF_ERROR(RemoveTree(directory + name));
  std::error_code error;
  for (const auto& part : fs::directory_iterator(directory, error)) {
    if (!part.is_directory(error)) continue;
    for (const char* name : {"/pid", "/cache"})
      RT_RETURN_IF_ERROR(RemoveTree(part.path().string() + name));
  }
  return error ? ErrnoStatus(error.value(), "read " + directory) : absl::OkStatus();
}

absl::Status Move(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) return ErrnoStatus(error.value(), "rename " + from + " to " + to);
  RT_RETURN_IF_ERROR(SyncDirectory(fs::path(from).parent_path().string()));
  return SyncDirectory(fs::path(to).parent_path().string());
}

}  // namespace

std::string ArchiveDirectory(const Home& home, const std::string& name) {
  return ArchiveRoot(home) + "/" + name;
}

std::vector<std::string> ArchiveNames(const Home& home) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(ArchiveRoot(home), error))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<bool> ArchiveCluster(const Home& home, const std::string& name) {
  const std::string directory = home.ClusterDirectory(name);
  const std::string archive = ArchiveDirectory(home, name);
  if (!Exists(directory + "/head/ca")) {
    RT_RETURN_IF_ERROR(home.Forget(name));
    return false;
  }
  if (Exists(archive))
    return WithHint(absl::AlreadyExistsError(ToAbsl(archive + " is there already")),
                    "move it elsewhere, or delete the cluster's history with --purge");
  RT_RETURN_IF_ERROR(RemoveTransient(directory));
  RT_RETURN_IF_ERROR(EnsureDirectory(ArchiveRoot(home)));
  RT_RETURN_IF_ERROR(Move(directory, archive));
  RT_RETURN_IF_ERROR(home.Forget(name));  // That it is current.
  return true;
}

absl::StatusOr<bool> TakeFromArchive(const Home& home, const std::string& name) {
  const std::string archive = ArchiveDirectory(home, name);
  const std::string directory = home.ClusterDirectory(name);
  if (!Exists(archive) || Exists(directory + "/head")) return false;
  RT_RETURN_IF_ERROR(EnsureDirectory(home.root() + "/clusters"));
  RT_RETURN_IF_ERROR(RemoveTree(directory));  // Of a cluster that never started.
  RT_RETURN_IF_ERROR(Move(archive, directory));
  return true;
}

absl::Status UnknownCluster(const Home& home, const std::string& name) {
  std::vector<std::string> names = home.ClusterNames(), known;
  for (const std::string& one : names)
    known.push_back(one + (home.IsUp(one) ? " (up)" : " (not up)"));
  for (const std::string& one : ArchiveNames(home)) {
    names.push_back(one);
    known.push_back(one + " (archived)");
  }
  const std::string near = DidYouMean(name, names);
  const std::string all = known.empty() ? "" : "; known: " + Join(known, ", ");
  return WithHint(absl::UnavailableError(ToAbsl("there is no cluster '" + name + "'" + all)),
                  known.empty() ? "start one with 'rt up CLUSTER.yaml'" : near);
}

std::vector<PlaceElsewhere> PlacesElsewhere(const std::string& cluster_directory) {
  auto text = ReadFile(cluster_directory + "/config.json", kConfigBytesMax);
  auto config = text.ok() ? Json::Parse(*text) : absl::StatusOr<Json>(text.status());
  if (!config.ok()) return {};
  std::vector<PlaceElsewhere> places;
  auto add = [&](const char* what, const std::string& url) {
    if (url.empty()) return;
    const bool is_bucket = url.starts_with("s3://");
    if (is_bucket) places.push_back({what, url, "aws s3 rm --recursive " + url});
    else if (url.front() == '/') places.push_back({what, url, "rm -r " + url});
    else places.push_back({what, WithoutPassword(url), ""});
  };
  if (const Json* store = config->Find("checkpoint_store"); store != nullptr && store->is_object())
    add("its checkpoints", store->GetString("url"));
  if (const Json* journal = config->Find("journal"); journal != nullptr && journal->is_object()) {
    add("its journal", journal->GetString("url"));
    if (const Json* ship = journal->Find("ship"); ship != nullptr && ship->is_object())
      add("the copy of its journal", ship->GetString("to"));
  }
  return places;
}

absl::StatusOr<bool> DeleteArchive(const Home& home, const std::string& name) {
  const std::string archive = ArchiveDirectory(home, name);
  if (!Exists(archive)) return false;
  RT_RETURN_IF_ERROR(RemoveTree(archive));
  return true;
}

}  // namespace rt
