#include "cli/hosts/host_session.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/base/limits_hosts.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/clock.h"
#include "common/run/files.h"

namespace rt {
namespace {

constexpr size_t kErrorTextMax = 4'096;
constexpr Millis kSshEndMax = 2'000;
constexpr char kMark[] = "rt-host ";
constexpr int kNoticesSkippedMax = 1'000;  // Lines that a login shell prints before our script.

// "Linux x86_64", as `uname -sm` says it.
std::string OwnMachine() {
  utsname names{};
  if (::uname(&names) != 0) return "";
  return std::string(names.sysname) + " " + names.machine;
}

// The last lines that are not a banner's or a warning about host keys.
std::string LastWords(const std::string& text) {
  std::vector<std::string> lines;
  for (const std::string& line : Split(text, '\n')) {
    const std::string trimmed(Trim(line));
    if (!trimmed.empty() && trimmed.find("Permanently added") == std::string::npos)
      lines.push_back(trimmed);
  }
  const size_t first = lines.size() > 3 ? lines.size() - 3 : 0;
  return Join({lines.begin() + static_cast<std::ptrdiff_t>(first), lines.end()}, "; ");
}

std::string HintFor(const std::string& said, const HostSpec& host) {
  const std::string reach = "ssh " + SshText(host);
  if (said.find("IDENTIFICATION HAS CHANGED") != std::string::npos ||
      said.find("Host key verification failed") != std::string::npos)
    return "the host key is not the one that was pinned: if the machine was installed anew, take "
           "the old key out with the ssh-keygen command that ssh names, and repeat";
  if (said.find("Permission denied") != std::string::npos)
    return "the host accepts none of your keys: check '" + reach +
           "', auth.ssh_private_key or "
           "your agent";
  if (said.find("Could not resolve") != std::string::npos)
    return "check the host's name, or add it to ~/.ssh/config";
  if (said.find("GLIBC") != std::string::npos)
    return "the C library of the host is older than this build of rt needs";
  return "check '" + reach + "'";
}

}  // namespace

HostSession::HostSession(HostSession&& other) noexcept
    : host_(std::move(other.host_)), ssh_(std::move(other.ssh_)), fd_(std::exchange(other.fd_, -1)),
      errors_(std::exchange(other.errors_, -1)), read_(std::move(other.read_)),
      hello_(std::move(other.hello_)) {
  other.ssh_.reset();
}

HostSession& HostSession::operator=(HostSession&& other) noexcept {
  std::swap(host_, other.host_);
  std::swap(ssh_, other.ssh_);
  std::swap(fd_, other.fd_);
  std::swap(errors_, other.errors_);
  std::swap(read_, other.read_);
  std::swap(hello_, other.hello_);
  return *this;
}

HostSession::~HostSession() {
  if (fd_ >= 0) ::close(fd_);
  if (errors_ >= 0) ::close(errors_);
  if (!ssh_.has_value() || ssh_->Wait(kSshEndMax).has_value()) return;
  ssh_->Kill(SIGKILL).IgnoreError();
  ssh_->Wait(-1);
}

absl::StatusOr<HostSession> HostSession::Open(const HostSpec& host, const SshPlan& plan,
                                              ProgramsArchive& programs) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return ErrnoStatus(errno, "socketpair");
  ::fcntl(pair[0], F_SETFL, O_NONBLOCK);
  const int errors = ::memfd_create("ssh-errors", MFD_CLOEXEC);
  SpawnOptions options{.argv = SshArgv(host, plan),
                       .fds = {{pair[1], 0}, {pair[1], 1}, {errors, 2}},
                       .setsid = true};  // Ctrl-C is for us.
  absl::StatusOr<Subprocess> ssh = Subprocess::Spawn(options);
  ::close(pair[1]);
  if (!ssh.ok()) {
    ::close(pair[0]);
    ::close(errors);
    return WithHint(absl::FailedPreconditionError(ssh.status().message()),
                    "install the OpenSSH client (Debian: openssh-client)");
  }
  HostSession session(host, *std::move(ssh), pair[0], errors);
  RT_RETURN_IF_ERROR(session.Greet(programs));
  return session;
}

bool HostSession::IsDenied(const absl::Status& status) {
  return MessageOf(status).find("Permission denied (") != std::string::npos;
}

absl::Status HostSession::Greet(ProgramsArchive& programs) {
  const Millis until = SteadyClock() + limits::kHostConnect;
  for (int i = 0; i < kNoticesSkippedMax; ++i) {
    RT_ASSIGN_OR_RETURN(std::string line, ReadLine(until));
    if (!line.starts_with(kMark)) continue;
    line = line.substr(sizeof kMark - 1);
    if (line == "nothing") return NotFound("nothing of rt is on host " + host_.name);
    if (line.starts_with("need ")) {
      RT_RETURN_IF_ERROR(SendArchive(programs, line.substr(5)));
      RT_ASSIGN_OR_RETURN(line, ReadLine(SteadyClock() + limits::kArchiveSend));
      if (line.starts_with(kMark)) line = line.substr(sizeof kMark - 1);
    }
    if (!line.starts_with("ready ")) return Broken("the host answered '" + Excerpt(line) + "'");
    absl::StatusOr<Json> hello = Json::Parse(line.substr(6));
    if (!hello.ok()) return Broken("the agent's first line cannot be read");
    hello_ = *std::move(hello);
    return absl::OkStatus();
  }
  return Broken("the login shell of the host prints without end");
}

absl::Status HostSession::SendArchive(ProgramsArchive& programs, const std::string& machine) {
  if (machine != OwnMachine())
    return absl::FailedPreconditionError(ToAbsl("host " + host_.name + " is '" + Excerpt(machine) +
                                                "', and these programs are for '" + OwnMachine() +
                                                "'"));
  RT_ASSIGN_OR_RETURN(const std::string file, programs.File());
  RT_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(file, limits::kArchiveMax));
  const Millis until = SteadyClock() + limits::kArchiveSend;
  RT_RETURN_IF_ERROR(Send(std::to_string(bytes.size()) + "\n", until));
  return Send(bytes, until);
}

absl::StatusOr<Json> HostSession::Ask(const Json& request, Millis wait, std::string_view bytes) {
  const Millis until = SteadyClock() + wait;
  RT_RETURN_IF_ERROR(Send(request.Dump() + "\n", until));
  RT_RETURN_IF_ERROR(Send(bytes, until));
  RT_ASSIGN_OR_RETURN(const std::string line, ReadLine(until));
  absl::StatusOr<Json> answer = Json::Parse(line);
  if (!answer.ok() || !answer->is_object()) return Broken("the agent's answer cannot be read");
  const Json* error = answer->Find("error");
  if (error == nullptr || !error->is_object()) return *std::move(answer);
  return WithHint(absl::Status(static_cast<absl::StatusCode>(error->GetInt("code", 2)),
                               ToAbsl(error->GetString("message"))),
                  error->GetString("hint"));
}

absl::Status HostSession::Send(std::string_view bytes, Millis until) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
      continue;
    }
    if (sent < 0 && errno == EINTR) continue;
    const Millis left = until - SteadyClock();
    if (sent < 0 && errno != EAGAIN) return Broken("the connection broke");
    if (left <= 0) return Broken("the host takes nothing");
    pollfd ready{fd_, POLLOUT, 0};
    ::poll(&ready, 1, static_cast<int>(std::min<Millis>(left, 1'000)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> HostSession::ReadLine(Millis until) {
  while (true) {
    if (const size_t end = read_.find('\n'); end != std::string::npos) {
      std::string line = read_.substr(0, end);
      read_.erase(0, end + 1);
      return line;
    }
    if (read_.size() > limits::kHostLineMax) return Broken("the host's line does not end");
    char buffer[16'384];
    const ssize_t got = ::recv(fd_, buffer, sizeof buffer, 0);
    if (got > 0) {
      read_.append(buffer, static_cast<size_t>(got));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got == 0 || errno != EAGAIN) return Broken("the connection ended");
    const Millis left = until - SteadyClock();
    if (left <= 0) return Broken("the host does not answer");
    pollfd ready{fd_, POLLIN, 0};
    ::poll(&ready, 1, static_cast<int>(std::min<Millis>(left, 1'000)));
  }
}

// What ssh said is the reason; the rest is what we saw of it.
absl::Status HostSession::Broken(const std::string& what) {
  if (ssh_.has_value()) ssh_->Wait(200);  // Its last words.
  const std::string said = ErrorText(), last = LastWords(said);
  return WithHint(absl::UnavailableError(
                      ToAbsl("host " + host_.name + ": " + (last.empty() ? what : "ssh: " + last))),
                  HintFor(said, host_));
}

std::string HostSession::ErrorText() const {
  struct stat info {};
  const off_t size = ::fstat(errors_, &info) == 0 ? info.st_size : 0;
  std::string text(kErrorTextMax, '\0');
  const ssize_t got = ::pread(errors_, text.data(), text.size(),
                              std::max<off_t>(0, size - static_cast<off_t>(kErrorTextMax)));
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

std::string HostSession::PinnedKey() const {
  const std::string text = ErrorText();
  const size_t added = text.find("Permanently added");
  const size_t open = text.find('(', added == std::string::npos ? text.size() : added);
  const size_t close = text.find(')', open == std::string::npos ? text.size() : open);
  return close == std::string::npos ? "" : text.substr(open + 1, close - open - 1);
}

}  // namespace rt
