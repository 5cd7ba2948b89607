#include "cli/hosts/agent.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "cli/client/head_client.h"
#include "cli/client/home.h"
#include "cli/client/local_cluster.h"
#include "cli/hosts/file_mount.h"
#include "cli/hosts/head_keeper.h"
#include "cli/hosts/login_shell.h"
#include "common/base/limits.h"
#include "common/base/limits_hosts.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/digest.h"
#include "common/programs/served_mounts.h"
#include "common/provider/strays.h"
#include "common/rpc/identity.h"
#include "common/run/files.h"
#include "common/run/find_program.h"
#include "common/run/runtime_dir.h"
#include "common/run/start_failure.h"

namespace rt {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kSmallFileMax = 1 << 20;

// The words of SSH_CONNECTION: the client's address and port, then this host's. Empty: not known.
std::vector<std::string> ConnectionWords() {
  const char* connection = std::getenv("SSH_CONNECTION");
  std::vector<std::string> words = Split(connection == nullptr ? "" : connection, ' ');
  words.resize(words.size() == 4 ? 4 : 0);
  return words;
}

// The address at which this host accepted the connection: the one inside its network.
std::string OwnAddress() {
  const std::vector<std::string> words = ConnectionWords();
  return words.empty() ? "127.0.0.1" : words[2];
}

// The address under which the connection arrived here; "" when that is not known.
std::string ClientAddress() {
  const std::vector<std::string> words = ConnectionWords();
  return words.empty() ? "" : words[0];
}

// True when the client has closed the connection. Its request must then not be carried out: another
// client may have changed the host meanwhile.
bool ClientIsGone() {
  pollfd input{STDIN_FILENO, POLLRDHUP, 0};
  return ::poll(&input, 1, 0) > 0 && (input.revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0;
}

std::string ReadLineOf(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, kSmallFileMax);
  return text.ok() ? std::string(Trim(*text)) : "";
}

// Whether the daemon runs the programs of this installation.
bool IsOfThisInstallation(pid_t pid) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/" + std::to_string(pid) + "/exe", error);
  absl::StatusOr<std::string> own = BinaryDirectory();
  return !error && own.ok() && program.parent_path() == *own;
}

std::string ClusterOfWorker(const std::string& worker) {
  absl::StatusOr<Credentials> credentials = ReadCredentials(worker + "/credentials");
  if (!credentials.ok()) return "";
  absl::StatusOr<Identity> identity = IdentityOf(credentials->own.certificate_pem);
  return identity.ok() ? identity->cluster_id : "";
}

absl::Status SpawnDaemon(const std::string& directory, const std::vector<std::string>& argv) {
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const std::string path = directory + "/log";
  const int log = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  absl::Status status = log < 0 ? ErrnoStatus(errno, "open " + path)
                                : Subprocess::Spawn({.argv = argv,
                                                     .cwd = directory,
                                                     .fds = {{null, 0}, {log, 1}, {log, 2}},
                                                     .setsid = true})
                                      .status();
  ::close(null);
  if (log >= 0) ::close(log);
  return status;
}

// Removes a worker with all that it started.
absl::Status RemoveWorker(const std::string& worker) {
  RT_RETURN_IF_ERROR(EndDaemon(worker + "/pid"));
  KillStrays(worker);
  if (const auto sockets = FindRuntimeDir(worker)) RemoveTree(*sockets).IgnoreError();
  return RemoveTree(worker);
}

// A token with which the client becomes an admin; only its own key will be certified.
absl::StatusOr<std::string> AdminToken(const std::string& head, const std::string& name) {
  HeadClient client([head] { return LoadHeadContext(head); });
  RT_RETURN_IF_ERROR(client.Connect());
  v1::CreateTokenRequest request;
  request.set_role("admin");
  request.set_name(name);
  request.set_ttl_ms(limits::kMachineJoinMax);
  RT_ASSIGN_OR_RETURN(
      auto reply, client.Call<v1::ClusterService>(&v1::ClusterService::Stub::CreateToken, request));
  return reply.token();
}

// Where the listing of a mount is kept.
std::string RecordOf(const std::string& directory, const Json& listing) {
  return directory + "/mounts/" + std::string(DigestHex(Digest(listing.GetString("target"))));
}

// Where what the head serves of it is kept.
std::string ServedOf(const std::string& record) { return record + ".served"; }

Json ListingOf(const Json& request) {
  Json listing = Json::MakeObject();
  for (const char* key : {"target", "is_file", "files"})
    if (const Json* value = request.Find(key); value != nullptr) listing.Set(key, *value);
  return listing;
}

Json ErrorJson(const absl::Status& status) {
  return Json::MakeObject({{"error", Json::MakeObject({{"code", static_cast<int>(status.code())},
                                                       {"message", MessageOf(status)},
                                                       {"hint", HintOf(status)}})}});
}

void Print(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

int RunAgent(const std::string& directory) {
  ::signal(SIGPIPE, SIG_IGN);
  const std::string address = OwnAddress();
  Agent agent(directory, address);
  Print(
      "rt-host ready " +
      Json::MakeObject({{"version", RT_VERSION}, {"address", address}, {"client", ClientAddress()}})
          .Dump());
  std::string line;
  while (std::getline(std::cin, line)) {
    absl::StatusOr<Json> request = Json::Parse(line);
    std::string bytes;
    if (const int64_t size = request.ok() ? request->GetInt("bytes") : 0; size > 0) {
      if (size > limits::kMountArchiveMax) return 1;
      bytes.resize(static_cast<size_t>(size));
      if (!std::cin.read(bytes.data(), size)) return 1;
    }
    absl::StatusOr<Json> answer = request.ok() ? agent.Answer(*request, bytes) : request;
    Print((answer.ok() ? *answer : ErrorJson(answer.status())).Dump());
  }
  return 0;
}

absl::StatusOr<Json> Agent::Answer(const Json& request, const std::string& bytes) {
  const std::string op = request.GetString("op");
  if (op == "purge") return Purge();
  RT_ASSIGN_OR_RETURN(const Place place, PlaceOf(request));
  if (op == "look") return Look(place);
  // The agent of a client that was killed finishes what it does; a later one waits for that.
  RT_RETURN_IF_ERROR(EnsureDirectory(root_ + "/locks"));
  const StartLock lock(place.lock);
  if (ClientIsGone()) return absl::CancelledError("the client is gone");
  return Do(op, place, request, bytes);
}

absl::StatusOr<Json> Agent::Do(const std::string& op, const Place& place, const Json& request,
                               const std::string& bytes) {
  if (op == "mount") return Mount(place, request);
  if (op == "files") {
    const std::string record = RecordOf(place.directory, request);
    if (request.GetBool("serve") && !bytes.empty())
      RT_RETURN_IF_ERROR(WriteServedMount(ServedOf(record), ListingOf(request), bytes));
    RT_RETURN_IF_ERROR(TakeFiles(ListingOf(request), bytes, record));
    return Json::MakeObject();
  }
  if (op == "setup") return Setup(place, request);
  if (op == "head") return StartHead(place, request);
  if (op == "worker") return StartWorker(place, request);
  if (op == "stop") return Stop(place, request.GetBool("at_once"));
  return Invalid("the agent of this version knows no '" + Excerpt(op) + "'");
}

absl::StatusOr<Agent::Place> Agent::PlaceOf(const Json& request) const {
  Place place{request.GetString("cluster"), request.GetString("node"), "", ""};
  if (!Home::IsName(place.cluster) || !Home::IsName(place.node))
    return Invalid("a request names a cluster and a node");
  place.directory = root_ + "/clusters/" + place.cluster + "/" + place.node;
  place.lock = root_ + "/locks/" + place.cluster + "." + place.node;
  return place;
}

void Agent::PrepareToSpawn() {
  if (!is_prepared_) TakeLoginEnvironment();
  is_prepared_ = true;
}

absl::StatusOr<Json> Agent::Look(const Place& place) const {
  const std::string head = place.directory + "/head", worker = place.directory + "/worker";
  const absl::Status failure = ReadStartFailure(worker);
  return Json::MakeObject(
      {{"head", Json::MakeObject({{"alive", LocalCluster(place.directory).HeadIsAlive()},
                                  {"cluster_id", ReadLineOf(head + "/ca/cluster_id")},
                                  {"address", ReadLineOf(head + "/address")}})},
       {"worker", Json::MakeObject({{"alive", ReadPidFile(worker + "/pid").ok()},
                                    {"cluster_id", ClusterOfWorker(worker)},
                                    {"failure", MessageOf(failure)},
                                    {"hint", HintOf(failure)}})},
       {"setup", ReadLineOf(place.directory + "/setup")}});
}

absl::StatusOr<Json> Agent::Mount(const Place& place, const Json& request) const {
  const std::string record = RecordOf(place.directory, request);
  std::vector<std::string> paths = MissingFiles(request, record);
  // The head serves one archive with all files: a change of one file needs all of them again.
  if (request.GetBool("serve") && request.Find("files") != nullptr &&
      (!paths.empty() || !IsServed(ServedOf(record), ListingOf(request)))) {
    paths.clear();
    for (const auto& [path, digest] : request.Find("files")->object()) paths.push_back(path);
  }
  Json missing = Json::MakeArray();
  for (const std::string& path : paths) missing.Append(path);
  return Json::MakeObject({{"missing", std::move(missing)}});
}

absl::StatusOr<Json> Agent::Setup(const Place& place, const Json& request) const {
  std::vector<std::string> commands;
  if (const Json* list = request.Find("commands"); list != nullptr && list->is_array())
    for (const Json& command : list->array())
      if (command.is_string()) commands.push_back(command.AsString());
  RT_RETURN_IF_ERROR(EnsureDirectory(place.directory));
  RT_RETURN_IF_ERROR(RemoveTree(place.directory + "/setup"));
  RT_ASSIGN_OR_RETURN(SetupOutcome outcome,
                      RunSetup(commands, place.directory + "/setup.log", ClientIsGone));
  if (outcome.failed.empty())
    RT_RETURN_IF_ERROR(
        WriteFileAtomic(place.directory + "/setup", request.GetString("digest") + "\n"));
  return Json::MakeObject({{"failed", ValidUtf8(outcome.failed)}, {"log", ValidUtf8(outcome.log)}});
}

absl::StatusOr<Json> Agent::StartHead(const Place& place, const Json& request) {
  const std::string head = place.directory + "/head";
  const bool is_ipv6 = address_.find(':') != std::string::npos;
  const std::string port = std::to_string(request.GetInt("port"));
  const std::vector<std::string> flags = {"--listen", (is_ipv6 ? "[::]:" : "0.0.0.0:") + port,
                                          "--advertise",
                                          (is_ipv6 ? "[" + address_ + "]" : address_) + ":0"};
  const LocalCluster cluster(place.directory, -1, flags);
  RT_RETURN_IF_ERROR(EndDaemon(KeeperDirectory(place.directory) + "/pid"));
  absl::StatusOr<ProcessIdentity> running = ReadPidFile(head + "/pid");
  if (running.ok() && !IsOfThisInstallation(running->pid))
    RT_RETURN_IF_ERROR(EndDaemon(head + "/pid"));
  const Json* config = request.Find("config");
  if (config != nullptr || !Exists(place.directory + "/config.json")) {
    Json more = config == nullptr ? Json::MakeObject() : *config;
    more.Set("results_root", place.directory + "/results");
    more.Set("results_roots", Json::Array{"/"});  // Whoever submits runs under this account anyway.
    // Otherwise the client starts all workers, as it does that of this host.
    if (more.Find("provider") == nullptr) more.Set("provider", nullptr);
    if (const Json* mounts = request.Find("mounts"); mounts != nullptr && mounts->is_array()) {
      Json served = Json::MakeArray();
      for (const Json& target : mounts->array())
        served.Append(
            ServedOf(RecordOf(place.directory, Json::MakeObject({{"target", target.AsString()}}))));
      more.Set("mounts", std::move(served));
    }
    if (Json* unattended = more.Find("unattended"); unattended && unattended->is_object())
      unattended->Set("end_file", root_ + "/end-machine");
    RT_RETURN_IF_ERROR(cluster.Configure(place.cluster, {}, more));
  }
  const std::string id = request.GetString("cluster_id");
  const bool is_in_cloud = !id.empty();
  if (is_in_cloud) {
    RT_RETURN_IF_ERROR(EnsureDirectory(head));
    RT_RETURN_IF_ERROR(WriteFileAtomic(head + "/new_cluster_id", id + "\n"));
  }
  RT_RETURN_IF_ERROR(RemoveTree(root_ + "/end-machine"));
  if (is_in_cloud || !cluster.HeadIsAlive()) PrepareToSpawn();
  RT_RETURN_IF_ERROR(cluster.EnsureHead());
  if (is_in_cloud) RT_RETURN_IF_ERROR(StartKeeper(place, flags));
  std::string token;
  if (const std::string name = request.GetString("token"); !name.empty()) {
    RT_ASSIGN_OR_RETURN(token, AdminToken(head, name));
  }
  return Json::MakeObject({{"address", ReadLineOf(head + "/address")},
                           {"cluster_id", ReadLineOf(head + "/ca/cluster_id")},
                           {"token", token}});
}

// A machine whose head cannot be started ends after the same time as one whose client is missing:
// after lease_s and keep_s.
absl::Status Agent::StartKeeper(const Place& place, const std::vector<std::string>& head_flags) {
  RT_ASSIGN_OR_RETURN(const std::string text,
                      ReadFile(place.directory + "/config.json", kSmallFileMax));
  RT_ASSIGN_OR_RETURN(const Json config, Json::Parse(text));
  KeepWish wish{place.directory, head_flags, root_ + "/end-machine"};
  if (const Json* rules = config.Find("unattended"); rules != nullptr && rules->is_object())
    wish.dead_max =
        static_cast<Millis>(1'000 * (rules->GetDouble("lease_s") + rules->GetDouble("keep_s")));
  RT_ASSIGN_OR_RETURN(const std::string programs, BinaryDirectory());
  const std::string directory = KeeperDirectory(place.directory);
  RT_RETURN_IF_ERROR(EnsureDirectory(directory));
  return SpawnDaemon(directory, KeeperCommand(programs, wish));
}

absl::StatusOr<Json> Agent::StartWorker(const Place& place, const Json& request) {
  const std::string worker = place.directory + "/worker";
  RT_ASSIGN_OR_RETURN(const std::string binaries, BinaryDirectory());
  std::vector<std::string> argv = {binaries + "/rt-worker",
                                   "--head",
                                   request.GetString("head"),
                                   "--token-file",
                                   worker + "/token",
                                   "--state-dir",
                                   worker,
                                   "--name",
                                   place.node};
  for (const char* key : {"resources", "labels"})
    if (const std::string value = request.GetString(key); !value.empty())
      argv.insert(argv.end(), {std::string("--") + key, value});
  // What belongs to an earlier cluster of this name has no place in this one.
  const std::string known = ClusterOfWorker(worker);
  if (!known.empty() && known != request.GetString("cluster_id"))
    RT_RETURN_IF_ERROR(RemoveWorker(worker));
  RT_RETURN_IF_ERROR(EnsureDirectory(worker));
  const std::string quarantine = request.GetString("quarantine");
  RT_RETURN_IF_ERROR(quarantine.empty()
                         ? RemoveTree(worker + "/quarantine")
                         : WriteFileAtomic(worker + "/quarantine", quarantine + "\n"));
  const std::string arguments = Join(argv, "\n");
  const bool is_same = ReadLineOf(worker + "/arguments") == arguments;
  if (ReadPidFile(worker + "/pid").ok()) {
    if (is_same) return Json::MakeObject({{"started", false}});
    RT_RETURN_IF_ERROR(EndDaemon(worker + "/pid"));
  }
  if (const std::string token = request.GetString("token"); !token.empty())
    RT_RETURN_IF_ERROR(WriteFileAtomic(worker + "/token", token + "\n", {.sync = false}));
  RT_RETURN_IF_ERROR(WriteFileAtomic(worker + "/arguments", arguments + "\n", {.sync = false}));
  ClearStartFailure(worker);
  PrepareToSpawn();
  RT_RETURN_IF_ERROR(SpawnDaemon(worker, argv));
  return Json::MakeObject({{"started", true}});
}

absl::StatusOr<Json> Agent::Stop(const Place& place, bool at_once) const {
  const bool was_there = Exists(place.directory);
  RT_RETURN_IF_ERROR(EndDaemon(KeeperDirectory(place.directory) + "/pid"));
  // A worker that ends in order announces that it comes back.
  if (!at_once) RT_RETURN_IF_ERROR(EndDaemon(place.directory + "/worker/pid"));
  // A head that was told to shut down may still be ending.
  RT_RETURN_IF_ERROR(EndDaemon(place.directory + "/head/pid"));
  RT_RETURN_IF_ERROR(LocalCluster(place.directory).WaitGone(0));
  RT_RETURN_IF_ERROR(RemoveTree(place.directory));
  std::error_code ignored;  // They stay while another cluster is in them.
  fs::remove(root_ + "/clusters/" + place.cluster, ignored);
  fs::remove(root_ + "/clusters", ignored);
  fs::remove(place.lock, ignored);
  fs::remove(root_ + "/locks", ignored);
  return Json::MakeObject({{"was_there", was_there}});
}

absl::StatusOr<Json> Agent::Purge() const {
  if (Exists(root_ + "/clusters"))
    return absl::FailedPreconditionError(
        ToAbsl("another cluster runs the programs in " + root_ + "/cache"));
  RT_RETURN_IF_ERROR(RemoveTree(root_ + "/cache"));
  std::error_code ignored;
  fs::remove(root_, ignored);
  return Json::MakeObject();
}

}  // namespace rt
