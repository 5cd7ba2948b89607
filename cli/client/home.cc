#include "cli/client/home.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "cli/client/archive.h"
#include "common/base/json.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"

namespace rt {
namespace {

constexpr Bytes kSmallFileMax = 1 << 20;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

absl::StatusOr<Context> LoadDirectory(const std::string& directory) {
  RT_ASSIGN_OR_RETURN(std::string text, ReadFile(directory + "/context.json", kSmallFileMax));
  RT_ASSIGN_OR_RETURN(Json json, Json::Parse(text));
  Context context;
  context.name = json.GetString("name");
  context.cluster_id = json.GetString("cluster_id");
  context.address = json.GetString("address");
  RT_ASSIGN_OR_RETURN(context.credentials, ReadCredentials(directory));
  return context;
}

// "<cluster id> <epoch>": 0 where there is none, or it is another cluster's of the same name.
uint64_t ReadEpoch(const std::string& path, const std::string& cluster_id) {
  const absl::StatusOr<std::string> text = ReadFile(path, kSmallFileMax);
  if (!text.ok() || !text->starts_with(cluster_id + " ")) return 0;
  return std::strtoull(text->c_str() + cluster_id.size(), nullptr, 10);
}

// Fails unless only the caller can write the directory: the files in it name processes to end,
// directories to remove, and heads to trust.
absl::Status CheckOursAlone(const std::string& root) {
  struct stat info {};
  if (::stat(root.c_str(), &info) != 0) return ErrnoStatus(errno, "RT_HOME: " + root);
  const std::string shown = "RT_HOME: " + EscapeControl(root);
  if (info.st_uid != ::geteuid() && info.st_uid != 0)
    return WithHint(absl::FailedPreconditionError(ToAbsl(shown + " belongs to another user (uid " +
                                                         std::to_string(info.st_uid) + ")")),
                    "set RT_HOME to a directory of your own");
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return WithHint(absl::FailedPreconditionError(ToAbsl(shown + " can be written by others")),
                    "chmod go-w " + EscapeControl(root) + ", or set RT_HOME to another one");
  return absl::OkStatus();
}

// Services and containers may have no HOME.
std::string UserDirectory() {
  const std::string home = Environment("HOME");
  const passwd* account = home.empty() ? ::getpwuid(::geteuid()) : nullptr;
  return account == nullptr ? home : account->pw_dir;
}

}  // namespace

std::string AbsolutePath(const std::string& path) {
  std::string expanded = path;
  if (path == "~" || path.starts_with("~/")) expanded = UserDirectory() + path.substr(1);
  std::error_code error;
  std::filesystem::path absolute = std::filesystem::absolute(expanded, error);
  std::string normal = absolute.lexically_normal().string();
  while (normal.size() > 1 && normal.ends_with('/')) normal.pop_back();
  return normal;
}

std::string ResultsRoot() {
  std::string root = Environment("RT_RESULTS");
  return AbsolutePath(root.empty() ? "~/rt_results" : root);
}

absl::StatusOr<Context> LoadHeadContext(const std::string& head_directory) {
  RT_ASSIGN_OR_RETURN(Context context, LoadDirectory(head_directory + "/admin"));
  RT_ASSIGN_OR_RETURN(std::string address, ReadFile(head_directory + "/address", kSmallFileMax));
  context.address = std::string(Trim(address));
  context.local_directory = std::filesystem::path(head_directory).parent_path().string();
  return context;
}

std::string Home::Path() {
  const std::string root = Environment("RT_HOME");
  return AbsolutePath(root.empty() ? "~/.rt" : root);
}

absl::StatusOr<Home> Home::Open() {
  const std::string root = Path();
  RT_RETURN_IF_ERROR(Annotate(EnsureDirectory(root), "RT_HOME"));
  RT_RETURN_IF_ERROR(CheckOursAlone(root));
  return Home(root);
}

std::string Home::ClusterDirectory(const std::string& name) const {
  return root_ + "/clusters/" + name;
}

std::vector<std::string> Home::ClusterNames() const {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root_ + "/clusters", error))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

bool Home::IsLocal(const std::string& name) const {
  return Exists(ClusterDirectory(name) + "/head");
}

bool Home::IsUp(const std::string& name) const {
  return Exists(ClusterDirectory(name) + "/up") || Exists(ClusterDirectory(name) + "/context");
}

std::string Home::Named(const std::string& flag) const {
  return flag.empty() ? Environment("RT_CLUSTER") : flag;
}

absl::StatusOr<std::string> Home::Choose(const std::string& flag) const {
  std::string name = Named(flag);
  if (name.empty()) name = Current();
  std::vector<std::string> known = ClusterNames();
  if (name.empty())
    return WithHint(absl::UnavailableError("no cluster is chosen"),
                    "start one with 'rt up CLUSTER.yaml', or name one with -c or rt context use");
  const std::vector<std::string> archived = ArchiveNames(*this);
  const bool is_known = std::find(known.begin(), known.end(), name) != known.end();
  const bool is_archived = std::find(archived.begin(), archived.end(), name) != archived.end();
  if (!is_known && !is_archived) return UnknownCluster(*this, name);
  if (!IsUp(name))
    return WithHint(absl::UnavailableError(ToAbsl("cluster '" + name + "' is not up")),
                    "start it with 'rt up CLUSTER.yaml'");
  return name;
}

std::string Home::Current() const {
  absl::StatusOr<std::string> text = ReadFile(root_ + "/current", kSmallFileMax);
  return text.ok() ? std::string(Trim(*text)) : "";
}

absl::Status Home::SetCurrent(const std::string& name) const {
  return WriteFileAtomic(root_ + "/current", name + "\n");
}

bool Home::IsName(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.find('/') == std::string::npos &&
         name.size() <= 255;
}

absl::Status Home::Forget(const std::string& name) const {
  if (!IsName(name)) return Invalid("'" + name + "' is not the name of a cluster");
  if (Current() == name) RT_RETURN_IF_ERROR(RemoveTree(root_ + "/current"));
  return RemoveTree(ClusterDirectory(name));
}

absl::StatusOr<Context> Home::Load(const std::string& name) const {
  std::string directory = ClusterDirectory(name);
  absl::StatusOr<Context> context =
      IsLocal(name) ? LoadHeadContext(directory + "/head") : LoadDirectory(directory + "/context");
  if (!context.ok())
    return absl::UnavailableError(
        ToAbsl("context of cluster '" + name + "': " + MessageOf(context.status())));
  context->name = name;
  context->seen_epoch = ReadEpoch(directory + "/epoch", context->cluster_id);
  return context;
}

absl::Status Home::NoteEpoch(const Context& context) const {
  const std::string path = ClusterDirectory(context.name) + "/epoch";
  if (ReadEpoch(path, context.cluster_id) >= context.seen_epoch) return absl::OkStatus();
  const std::string epoch = std::to_string(context.seen_epoch);
  return WriteFileAtomic(path, context.cluster_id + " " + epoch + "\n");
}

absl::Status Home::Add(const std::string& name, const std::string& from) const {
  absl::StatusOr<Context> context = LoadDirectory(from);
  if (!context.ok()) return Annotate(context.status(), "context in " + from);
  context->name = name;
  return Add(*context);
}

absl::Status Home::CheckNew(const std::string& name) const {
  if (!IsName(name)) return Invalid("a context's name has no '/' and does not start with '.'");
  if (IsLocal(name))
    return absl::AlreadyExistsError(ToAbsl("'" + name + "' is a cluster of this machine"));
  return absl::OkStatus();
}

absl::Status Home::Add(const Context& context) const {
  const std::string& name = context.name;
  RT_RETURN_IF_ERROR(CheckNew(name));
  std::string target = ClusterDirectory(name) + "/context";
  RT_RETURN_IF_ERROR(EnsureDirectory(target));
  RT_RETURN_IF_ERROR(WriteCredentials(target, context.credentials));
  Json json = Json::MakeObject(
      {{"name", name}, {"cluster_id", context.cluster_id}, {"address", context.address}});
  return WriteFileAtomic(target + "/context.json", json.Pretty() + "\n");
}

}  // namespace rt
