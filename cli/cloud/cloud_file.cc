#include "cli/cloud/cloud_file.h"

#include "common/base/status.h"
#include "common/run/files.h"

namespace rt {
namespace {

constexpr Bytes kCloudFileMax = 1 << 20;

}  // namespace

std::string CloudFile(const std::string& cluster_directory) {
  return cluster_directory + "/cloud.json";
}

absl::Status WriteCloudFile(const std::string& cluster_directory, const CloudNote& note) {
  const Json json = Json::MakeObject({{"provider", note.provider},
                                      {"cluster_id", note.cluster_id},
                                      {"instance", note.instance},
                                      {"asked_at", note.asked_at},
                                      {"has_role", note.has_role},
                                      {"made_here", note.made_here}});
  RT_RETURN_IF_ERROR(EnsureDirectory(cluster_directory));
  return WriteFileAtomic(CloudFile(cluster_directory), json.Pretty() + "\n");
}

absl::StatusOr<CloudNote> ReadCloudFile(const std::string& cluster_directory) {
  const std::string path = CloudFile(cluster_directory);
  RT_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kCloudFileMax));
  absl::StatusOr<Json> json = Json::Parse(text);
  if (!json.ok()) return Annotate(json.status(), path);
  CloudNote note{.provider = Json(),
                 .cluster_id = json->GetString("cluster_id"),
                 .instance = json->GetString("instance"),
                 .asked_at = json->GetInt("asked_at"),
                 .has_role = json->GetBool("has_role"),
                 .made_here = json->GetBool("made_here")};
  if (const Json* provider = json->Find("provider")) note.provider = *provider;
  if (note.cluster_id.empty() || !note.provider.is_object())
    return absl::DataLossError(ToAbsl(path + ": names no cluster"));
  return note;
}

}  // namespace rt
