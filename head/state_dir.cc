#include "head/state_dir.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"
#include "common/run/random.h"

namespace rt {
namespace {

constexpr Millis kYear = Millis{365} * 86'400'000;
constexpr Bytes kSmallFileMax = 64 << 10;
constexpr const char* kRestored = "/restored";
constexpr off_t kReserveBytes = 256 << 10;  // Some thousand lines of log.

std::string ReadLine(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, kSmallFileMax);
  return text.ok() ? std::string(Trim(*text)) : "";
}

std::string ReserveOf(const std::string& state_dir) { return state_dir + "/reserve"; }

std::string FreeText(const std::string& state_dir) {
  struct statvfs disk {};
  if (statvfs(state_dir.c_str(), &disk) != 0) return "";
  return " (" + std::to_string(uint64_t{disk.f_bavail} * disk.f_frsize) + " bytes are free)";
}

}  // namespace

absl::StatusOr<ClusterCa> LoadOrCreateCa(const std::string& state_dir) {
  const std::string directory = state_dir + "/ca";
  ClusterCa ca;
  ca.cluster_id = ReadLine(directory + "/cluster_id");
  if (!ca.cluster_id.empty()) {
    RT_ASSIGN_OR_RETURN(Credentials credentials, ReadCredentials(directory));
    ca.ca = std::move(credentials.own);
    return ca;
  }
  if (Exists(state_dir + "/journal.db"))
    return absl::DataLossError("the journal is there but its CA (" + directory + ") is not");
  ca.cluster_id = ReadLine(state_dir + "/new_cluster_id");
  if (ca.cluster_id.empty()) ca.cluster_id = RandomHex(8);
  RT_ASSIGN_OR_RETURN(ca.ca, CreateCa(ca.cluster_id));
  RT_RETURN_IF_ERROR(WriteCa(state_dir, ca));
  return ca;
}

absl::Status WriteCa(const std::string& state_dir, const ClusterCa& ca) {
  const std::string directory = state_dir + "/ca";
  RT_RETURN_IF_ERROR(WriteCredentials(directory, {ca.ca.certificate_pem, ca.ca}));
  return WriteFileAtomic(directory + "/cluster_id", ca.cluster_id + "\n");
}

absl::StatusOr<Credentials> MakeHeadCredentials(const ClusterCa& ca,
                                                const std::vector<std::string>& hosts) {
  Identity identity{.cluster_id = ca.cluster_id, .kind = "head", .name = "", .role = "head"};
  RT_ASSIGN_OR_RETURN(KeyPair own, IssueKeyPair(ca.ca, identity, 5 * kYear, hosts));
  return Credentials{ca.ca.certificate_pem, std::move(own)};
}

absl::Status WriteAdminContext(const std::string& state_dir, const ClusterCa& ca,
                               const std::string& cluster_name, const std::string& address) {
  const std::string directory = state_dir + "/admin";
  if (!ReadCredentials(directory).ok()) {
    Identity admin{.cluster_id = ca.cluster_id, .kind = "user", .name = "admin", .role = "admin"};
    RT_ASSIGN_OR_RETURN(KeyPair own, IssueKeyPair(ca.ca, admin, 5 * kYear, {}));
    RT_RETURN_IF_ERROR(WriteCredentials(directory, {ca.ca.certificate_pem, std::move(own)}));
  }
  Json context = Json::MakeObject(
      {{"cluster_id", ca.cluster_id}, {"name", cluster_name}, {"address", address}});
  return WriteFileAtomic(directory + "/context.json", context.Pretty() + "\n");
}

HostPort LastAddress(const std::string& state_dir) {
  absl::StatusOr<HostPort> last = ParseHostPort(ReadLine(state_dir + "/listen"));
  if (!last.ok()) last = ParseHostPort(ReadLine(state_dir + "/address"));
  return last.ok() ? *last : HostPort{};
}

absl::Status WriteWhereabouts(const std::string& state_dir, const Reached& reached) {
  RT_RETURN_IF_ERROR(WriteFileAtomic(state_dir + "/pid", std::to_string(getpid()) + "\n"));
  RT_RETURN_IF_ERROR(WriteFileAtomic(state_dir + "/listen", ToString(reached.listen) + "\n"));
  return WriteFileAtomic(state_dir + "/address", ToString(reached.advertise) + "\n");
}

absl::Status ReserveSpace(const std::string& state_dir) {
  const std::string path = ReserveOf(state_dir);
  int fd = open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoStatus(errno, "create " + path);
  int error = posix_fallocate(fd, 0, kReserveBytes);
  close(fd);
  if (error == 0) return absl::OkStatus();
  absl::Status failed = ErrnoStatus(error, "the state directory " + state_dir +
                                               FreeText(state_dir));
  unlink(path.c_str());
  return WithHint(failed, "free some space there, then start the head again");
}

std::string ExplainJournalFailure(const std::string& state_dir, const absl::Status& status) {
  if (absl::IsAborted(status)) {
    return "this head leads no more: " + MessageOf(status) +
           ". It ends here; nothing that was acknowledged is lost, and trials keep running.";
  }
  const std::string free = FreeText(state_dir);
  unlink(ReserveOf(state_dir).c_str());
  std::string text = "the journal in " + state_dir + free + " cannot be written: " +
                     MessageOf(status) + ". The head ends here; nothing that was acknowledged is ";
  text += "lost, and trials keep running. ";
  if (absl::IsUnavailable(status)) return text + "Start it again when its journal can be reached.";
  return text + (absl::IsResourceExhausted(status) ? "Free some space there, then start it again."
                                                   : "Mend the disk, then start it again.");
}

absl::Status AdviseOnDamage(const absl::Status& status, const std::string& state_dir) {
  if (!absl::IsDataLoss(status) || !HintOf(status).empty()) return status;
  return WithHint(status, "nothing was changed; keep a copy of " + state_dir +
                              ", then restore a backup or the shipped journal "
                              "(docs/reliability.md, \"A damaged journal\")");
}

absl::Status NoteRestored(const std::string& state_dir) {
  if (!Exists(state_dir + "/ca/cluster_id"))
    return NotFound(state_dir + " holds no head's state", "restore the copy there first");
  return WriteFileAtomic(state_dir + kRestored, "");
}

bool WasRestored(const std::string& state_dir) {
  return Exists(state_dir + kRestored);
}

void ForgetRestored(const std::string& state_dir) { unlink((state_dir + kRestored).c_str()); }

void RemovePid(const std::string& state_dir) { unlink((state_dir + "/pid").c_str()); }

}  // namespace rt
