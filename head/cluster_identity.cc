#include "head/cluster_identity.h"

#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/rpc/seal.h"
#include "common/run/files.h"
#include "common/run/random.h"

namespace rt {
namespace {

constexpr Bytes kKeyFileBytesMax = 64 << 10;
constexpr size_t kKeyBytesLeast = 16;

absl::StatusOr<std::string> ReadKey(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, kKeyFileBytesMax);
  if (!text.ok())
    return WithHint(Annotate(text.status(), "the key of the cluster's CA"),
                    "bring the key file that the cluster's first head made");
  const std::string_view key = Trim(*text);
  if (key.size() < kKeyBytesLeast)
    return Invalid(path + " holds less than 16 bytes: that is no key", "openssl rand -hex 32");
  text->assign(key);
  return text;
}

absl::StatusOr<std::string> ReadOrMakeKey(const std::string& path) {
  if (Exists(path)) return ReadKey(path);
  const std::string key = RandomHex(32);
  RT_RETURN_IF_ERROR(WriteFileAtomic(path, key + "\n"));
  RT_LOG(kWarning) << path << " was made: it opens the cluster's CA. Keep a copy away from this "
                   << "machine, or nothing can be restored when the machine is lost";
  return key;
}

std::string Seal(const ClusterCa& ca, const std::string& key) {
  const Json secret = Json::MakeObject({{"certificate", ca.ca.certificate_pem},
                                        {"key", ca.ca.key_pem}});
  return Json::MakeObject({{"cluster_id", ca.cluster_id},
                           {"sealed", SealSecret(secret.Dump(), key)}}).Dump();
}

absl::StatusOr<ClusterCa> Open(const std::string& text, const std::string& key) {
  RT_ASSIGN_OR_RETURN(Json json, Json::Parse(text));
  RT_ASSIGN_OR_RETURN(std::string secret, OpenSecret(json.GetString("sealed"), key));
  RT_ASSIGN_OR_RETURN(Json opened, Json::Parse(secret));
  return ClusterCa{json.GetString("cluster_id"),
                   {opened.GetString("certificate"), opened.GetString("key")}};
}

}  // namespace

absl::StatusOr<ClusterCa> LoadIdentity(const std::string& state_dir, const IdentityVault& vault,
                                       const std::string& key_file, bool may_create) {
  const std::string context = "the cluster's identity";
  auto kept = vault.read();
  if (!kept.ok()) return Annotate(kept.status(), context);
  const bool has_own = Exists(state_dir + "/ca/cluster_id");
  if (!kept->has_value()) {
    if (!has_own && !may_create) return Annotate(NotFound("there is none"), context);
    RT_ASSIGN_OR_RETURN(ClusterCa ca, LoadOrCreateCa(state_dir));
    RT_ASSIGN_OR_RETURN(std::string key, ReadOrMakeKey(key_file));
    absl::Status written = vault.write(Seal(ca, key));
    if (absl::IsAlreadyExists(written) && !has_own) {
      // Another head of this cluster began at the same time: it is the cluster.
      RT_RETURN_IF_ERROR(RemoveTree(state_dir + "/ca"));
      return LoadIdentity(state_dir, vault, key_file, false);
    }
    RT_RETURN_IF_ERROR(Annotate(written, context));
    return ca;
  }
  // Also when it is not needed: a key that does not fit is found out before it is.
  RT_ASSIGN_OR_RETURN(std::string key, ReadKey(key_file));
  absl::StatusOr<ClusterCa> known = Open(**kept, key);
  if (!known.ok()) return Annotate(known.status(), context + " (" + key_file + ")");
  if (!has_own) RT_RETURN_IF_ERROR(WriteCa(state_dir, *known));
  RT_ASSIGN_OR_RETURN(ClusterCa ca, LoadOrCreateCa(state_dir));
  if (ca.cluster_id == known->cluster_id) return ca;
  return WithHint(absl::FailedPreconditionError(ToAbsl(
                      "the state directory " + state_dir + " is that of cluster " + ca.cluster_id +
                      ", the journal's other place that of cluster " + known->cluster_id)),
                  "give each cluster a place of its own");
}

}  // namespace rt
