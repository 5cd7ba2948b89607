#include "cli/hosts/machine.h"

#include <grpcpp/grpcpp.h>
#include <linux/close_range.h>
#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "cli/hosts/file_mount.h"
#include "cli/hosts/login_shell.h"
#include "common/base/limits.h"
#include "common/base/limits_hosts.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/digest.h"
#include "common/rpc/channel.h"
#include "common/rpc/connection.h"
#include "common/rpc/identity.h"
#include "common/rpc/join.h"
#include "common/run/clock.h"
#include "common/run/files.h"
#include "rt/v1/boot.grpc.pb.h"

namespace rt {
namespace {

constexpr Millis kHeadMax = 60'000;
constexpr Millis kAskAgainAfter = 1'000;
constexpr auto kAnswerMax = std::chrono::seconds(15);
constexpr Bytes kTokenMax = 1 << 20;

std::string FlagOf(const std::vector<std::string>& argv, const std::string& flag) {
  for (size_t i = 1; i + 1 < argv.size(); ++i)
    if (argv[i] == flag) return argv[i + 1];
  return "";
}

// cloud-init and runuser leave the variables of another account, or none.
void TakeAccount() {
  const passwd* account = ::getpwuid(::geteuid());
  const char* home = std::getenv("HOME");
  struct stat info {};
  const bool is_own = home != nullptr && ::stat(home, &info) == 0 && info.st_uid == ::geteuid();
  if (account == nullptr || is_own) return;
  ::setenv("HOME", account->pw_dir, 1);
  ::setenv("USER", account->pw_name, 1);
  ::setenv("LOGNAME", account->pw_name, 1);
  ::setenv("SHELL", account->pw_shell, 1);
}

absl::StatusOr<v1::SetupReply> AskOnce(grpc::Channel& channel, v1::BootService::Stub& stub) {
  RT_RETURN_IF_ERROR(AwaitConnection(channel, SteadyClock() + kAskAgainAfter));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAnswerMax);
  v1::SetupReply reply;
  const grpc::Status status = stub.Setup(&context, {}, &reply);
  if (!status.ok()) return FromGrpc(status);
  return reply;
}

absl::StatusOr<std::string> FetchMount(v1::BootService::Stub& stub, const std::string& digest) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(limits::kProgramsReadMax));
  v1::MountRequest request;
  request.set_digest(digest);
  const auto reader = stub.Mount(&context, request);
  std::string bytes;
  v1::ProgramsPiece piece;
  while (reader->Read(&piece)) {
    if (static_cast<Bytes>(bytes.size() + piece.data().size()) > limits::kMountArchiveMax)
      context.TryCancel();
    else bytes += piece.data();
  }
  if (const grpc::Status status = reader->Finish(); !status.ok()) return FromGrpc(status);
  if (Digest(bytes) != digest) return absl::UnavailableError("the files came damaged");
  return bytes;
}

// Fetches the mounts that this machine does not have yet.
absl::Status TakeMounts(v1::BootService::Stub& stub, const v1::SetupReply& reply,
                        const std::string& directory) {
  for (const v1::SetupMount& mount : reply.mounts()) {
    RT_ASSIGN_OR_RETURN(const Json listing, Json::Parse(mount.listing()));
    const std::string target = listing.GetString("target");
    const std::string record = directory + "/mounts/" + std::string(DigestHex(Digest(target)));
    if (MissingFiles(listing, record).empty()) continue;
    const absl::StatusOr<std::string> bytes = FetchMount(stub, mount.digest());
    if (!bytes.ok()) return Annotate(bytes.status(), "file_mounts: " + target);
    RT_RETURN_IF_ERROR(Annotate(TakeFiles(listing, *bytes, record), "file_mounts: " + target));
  }
  return absl::OkStatus();
}

// The files of the cluster, and the setup commands; with the certificate of the join token, which
// is not spent by it.
absl::StatusOr<std::vector<std::string>> TakeSetup(const std::string& head, const JoinToken& token,
                                                   const std::string& directory) {
  const auto channel = MakeChannel(head, token.credentials, token.cluster_id, false);
  const auto stub = v1::BootService::NewStub(channel);
  const Millis until = SteadyClock() + kHeadMax;
  while (true) {
    const absl::StatusOr<v1::SetupReply> reply = AskOnce(*channel, *stub);
    const absl::Status taken = reply.ok() ? TakeMounts(*stub, *reply, directory) : reply.status();
    if (taken.ok())
      return std::vector<std::string>{reply->commands().begin(), reply->commands().end()};
    // Busy, replaced a moment ago, or away.
    const bool may_come =
        absl::IsUnavailable(taken) || absl::IsNotFound(taken) || absl::IsResourceExhausted(taken);
    if (!may_come || SteadyClock() >= until)
      return Annotate(taken, "ask " + head + " for the files and setup commands");
    SleepFor(kAskAgainAfter);
  }
}

// Spends the token, before the setup commands: these may take longer than it lives.
absl::Status JoinHead(const std::string& head, const std::string& token, const std::string& name,
                      const std::string& directory) {
  const absl::StatusOr<Joined> joined = JoinCluster(
      {.head = head, .token = token, .kind = "node", .name = name, .away_max = kHeadMax});
  if (!joined.ok()) return Annotate(joined.status(), "join " + head);
  RT_RETURN_IF_ERROR(EnsureDirectory(directory));
  return WriteCredentials(directory, joined->credentials);
}

// Once for a machine: the commands of a pool that change are for its next machines.
absl::Status SetUp(const std::vector<std::string>& worker) {
  const std::string directory = FlagOf(worker, "--state-dir");
  RT_RETURN_IF_ERROR(EnsureDirectory(directory));
  const std::string done = directory + "/setup", quarantine = directory + "/quarantine";
  const bool has_joined = Exists(directory + "/credentials/cert.pem");
  if (Exists(done)) return absl::OkStatus();
  const std::string listed = directory + "/setup_commands";
  if (has_joined && !Exists(listed)) return absl::OkStatus();  // By itself.
  std::vector<std::string> commands;
  if (has_joined) {  // The token is spent.
    RT_ASSIGN_OR_RETURN(const std::string text, ReadFile(listed, limits::kMessageBytesMax));
    commands = Split(text, '\0');
    commands.pop_back();
  } else {
    const std::string head = FlagOf(worker, "--head");
    RT_ASSIGN_OR_RETURN(const std::string text,
                        ReadFile(FlagOf(worker, "--token-file"), kTokenMax));
    RT_ASSIGN_OR_RETURN(const JoinToken token, DecodeJoinToken(text));
    RT_ASSIGN_OR_RETURN(commands, TakeSetup(head, token, directory));
    std::string list;
    for (const std::string& command : commands) list += command + '\0';
    RT_RETURN_IF_ERROR(WriteFileAtomic(listed, list));
    RT_RETURN_IF_ERROR(JoinHead(head, text, FlagOf(worker, "--name"), directory + "/credentials"));
  }
  RT_ASSIGN_OR_RETURN(const SetupOutcome outcome, RunSetup(
                                                      commands, directory + "/setup.log",
                                                      [] { return false; }, limits::kSetupMax));
  if (!outcome.failed.empty()) {
    std::fprintf(stderr, "rt: %s\n", EscapeControl(outcome.failed).c_str());
    return WriteFileAtomic(quarantine, ValidUtf8(outcome.failed + "\n" + outcome.log + "\n"));
  }
  RT_RETURN_IF_ERROR(RemoveTree(quarantine));
  return WriteFileAtomic(done, std::string(DigestHex(Digest(Join(commands, "\n")))) + "\n");
}

}  // namespace

int BecomeWorker(const std::vector<std::string>& worker) {
  ::umask(077);
  TakeAccount();
  if (const absl::Status set_up = SetUp(worker); !set_up.ok()) {
    const std::string hint = HintOf(set_up);
    std::fprintf(stderr, "rt: %s%s%s\n", MessageOf(set_up).c_str(),
                 hint.empty() ? "" : "\nhint: ", hint.c_str());
    return 1;
  }
  TakeLoginEnvironment();
  std::vector<char*> argv;
  argv.reserve(worker.size() + 1);
  for (const std::string& word : worker) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);  // Of the call to the head.
  ::execv(argv[0], argv.data());
  std::fprintf(stderr, "rt: %s\n", MessageOf(ErrnoStatus(errno, worker[0])).c_str());
  return 1;
}

}  // namespace rt
