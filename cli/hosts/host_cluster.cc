#include "cli/hosts/host_cluster.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>

#include "cli/client/head_client.h"
#include "cli/client/join.h"
#include "cli/client/nouns.h"
#include "cli/hosts/host_file.h"
#include "common/base/limits.h"
#include "common/base/limits_hosts.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/digest.h"
#include "common/run/clock.h"
#include "common/run/files.h"

namespace rt {
namespace {

constexpr Millis kReadyMax = 60'000;
constexpr Millis kPollEvery = 50;
constexpr Millis kTryEvery = 500;
// A machine that boots may answer ssh before the key has been put in place.
constexpr Millis kDeniedGrace = 10'000;
constexpr Millis kLostMax = 20'000;
constexpr Millis kLookAfter = 3'000;  // At the host, for why its worker does not start.

Json TextsJson(const std::vector<std::string>& texts) {
  Json list = Json::MakeArray();
  for (const std::string& text : texts) list.Append(text);
  return list;
}

// The name under which this person is a user of the cluster: "me@laptop".
std::string PersonName() {
  const passwd* account = ::getpwuid(::geteuid());
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = 0;
  std::string name = std::string(account == nullptr ? "admin" : account->pw_name) + "@" + host;
  for (char& c : name) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '@';
    if (!is_plain && c != '-' && c != '_' && c != '.') c = '-';
  }
  return name.substr(0, limits::kNameBytesMax);
}

absl::StatusOr<std::map<std::string, Json>> NodesByName(HeadClient& client) {
  RT_ASSIGN_OR_RETURN(Json list, ListNodes(client));
  std::map<std::string, Json> nodes;
  if (const Json* items = list.Find("items"); items != nullptr && items->is_array())
    for (const Json& node : items->array())
      if (node.GetString("state") != "GONE") nodes[node.GetString("name")] = node;
  return nodes;
}

absl::Status ForgetNode(HeadClient& client, const Json& node, const std::string& reason) {
  v1::ForgetNodeRequest request;
  request.set_node(static_cast<uint64_t>(node.GetInt("id")));
  request.set_reason(reason);
  return client.Call<v1::ClusterService>(&v1::ClusterService::Stub::ForgetNode, request).status();
}

// Forgets the node of a worker that was ended. The head refuses until it has found the node LOST,
// which takes seconds; until then this asks again.
absl::Status ForgetHost(HeadClient& client, const std::string& name, const char* reason) {
  const Millis until = SteadyClock() + kLostMax;
  while (true) {
    RT_ASSIGN_OR_RETURN(const auto nodes, NodesByName(client));
    const auto node = nodes.find(name);
    if (node == nodes.end()) return absl::OkStatus();
    absl::Status forgotten = ForgetNode(client, node->second, reason);
    if (!absl::IsFailedPrecondition(forgotten) || SteadyClock() > until) return forgotten;
    SleepFor(kPollEvery);
  }
}

// An IPv6 address in front of a port.
std::string Bracketed(const std::string& address) {
  return address.find(':') == std::string::npos ? address : "[" + address + "]";
}

Json TargetsOf(const std::vector<FileMount>& mounts) {
  Json targets = Json::MakeArray();
  for (const FileMount& mount : mounts) targets.Append(mount.target());
  return targets;
}

// Puts "gpu3: " before a reason that does not begin with it.
std::string FaultLine(const std::string& host, const absl::Status& fault) {
  const std::string message = MessageOf(fault), hint = HintOf(fault);
  const std::string line =
      message.starts_with("host " + host) ? message : "host " + host + ": " + message;
  return hint.empty() ? line : line + " (" + hint + ")";
}

}  // namespace

HostCluster::HostCluster(const Home& home, std::string name, HostList list)
    : home_(home), name_(std::move(name)), list_(std::move(list)) {
  for (HostSpec& host : list_.hosts) {
    if (!host.key.empty()) host.key = AbsolutePath(host.key);
    hosts_.push_back({.spec = host, .is_head = hosts_.empty()});
  }
}

bool HostCluster::IsKnown(const Home& home, const std::string& name) {
  return Home::IsName(name) && Exists(HostFile(home.ClusterDirectory(name)));
}

absl::StatusOr<HostCluster> HostCluster::Load(const Home& home, const std::string& name) {
  RT_ASSIGN_OR_RETURN(HostList list, ReadHostFile(home.ClusterDirectory(name)));
  return HostCluster(home, name, std::move(list));
}

absl::StatusOr<HostCluster> HostCluster::Make(const Home& home, const ClusterSpec& spec) {
  const std::string directory = home.ClusterDirectory(spec.cluster_name);
  absl::StatusOr<HostList> before = ReadHostFile(directory);
  if (!before.ok() && home.IsUp(spec.cluster_name))
    return WithHint(absl::AlreadyExistsError(ToAbsl("'" + spec.cluster_name +
                                                    "' is known here as another kind of cluster")),
                    "use another cluster_name, or end that one first: 'rt down " +
                        spec.cluster_name + "' or 'rt context remove " + spec.cluster_name + "'");
  HostCluster cluster(home, spec.cluster_name, spec.hosts);
  cluster.setup_ = spec.setup;
  cluster.head_config_ = Json::MakeObject({{"journal", spec.journal},
                                           {"checkpoint_store", spec.checkpoint_store},
                                           {"elastic", spec.elastic}});
  if (!before.ok()) return cluster;
  if (home.IsUp(spec.cluster_name) && before->hosts[0].name != spec.hosts.hosts[0].name)
    return WithHint(absl::FailedPreconditionError(ToAbsl("the head of '" + spec.cluster_name +
                                                         "' is on host " + before->hosts[0].name +
                                                         ", and the file names another one")),
                    "run 'rt down " + spec.cluster_name + "' first: a head does not move");
  for (HostSpec& host : before->hosts) {
    const bool stays = std::any_of(cluster.hosts_.begin(), cluster.hosts_.end(),
                                   [&](const Host& other) { return other.spec.name == host.name; });
    if (!stays) cluster.hosts_.push_back({.spec = host, .is_retired = true});
  }
  return cluster;
}

void HostCluster::AddHeadConfig(const Json& more) {
  for (const auto& [key, value] : more.object()) head_config_.Set(key, value);
}

absl::Status HostCluster::NoteHosts() const {
  HostList list = list_;
  list.hosts.clear();
  for (const Host& host : hosts_) list.hosts.push_back(host.spec);
  return WriteHostFile(home_.ClusterDirectory(name_), list);
}

absl::Status HostCluster::OpenPrograms() {
  if (programs_.has_value()) return absl::OkStatus();
  RT_ASSIGN_OR_RETURN(ProgramsArchive programs, ProgramsArchive::Open(home_.root() + "/programs"));
  programs_.emplace(std::move(programs));
  const std::string place = IsInCloud() ? home_.ClusterDirectory(name_) : home_.root();
  plan_ = {.known_hosts = place + "/known_hosts",
           .pinned_as = IsInCloud() ? "rt-" + list_.cluster_id : "",
           .proxy_command = list_.proxy_command,
           .directory = list_.directory,
           .digest = programs_->digest()};
  return absl::OkStatus();
}

Json HostCluster::Request(const char* op, const Host& host) const {
  return Json::MakeObject({{"op", op}, {"cluster", name_}, {"node", host.spec.name}});
}

// Side by side; a host whose act fails has a fault from then on, and is left out of later ones.
void HostCluster::ForEach(const std::function<absl::Status(Host&)>& act) {
  for (size_t begin = 0; begin < hosts_.size(); begin += limits::kHostsAtOnce) {
    std::vector<std::thread> threads;
    for (size_t i = begin; i < std::min(hosts_.size(), begin + limits::kHostsAtOnce); ++i) {
      Host* host = &hosts_[i];
      if (host->fault.ok()) threads.emplace_back([host, &act] { host->fault = act(*host); });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

absl::StatusOr<HostSession> HostCluster::Connect(const Host& host) {
  Millis denied_at = 0;
  while (true) {
    absl::StatusOr<HostSession> session = HostSession::Open(host.spec, plan_, *programs_);
    if (!absl::IsUnavailable(session.status()) || SteadyClock() >= reachable_by_) return session;
    if (!HostSession::IsDenied(session.status())) denied_at = 0;
    else if (denied_at == 0) denied_at = SteadyClock();
    else if (SteadyClock() - denied_at > kDeniedGrace) return session;
    SleepFor(kTryEvery);
  }
}

absl::Status HostCluster::Open(Host& host) {
  if (host.session.has_value()) return absl::OkStatus();
  RT_ASSIGN_OR_RETURN(HostSession session, Connect(host));
  if (const std::string key = session.PinnedKey(); !key.empty())
    std::fprintf(stderr, "rt: first connection to host %s: its %s host key is pinned in %s\n",
                 host.spec.name.c_str(), EscapeControl(key).c_str(), plan_.known_hosts.c_str());
  const std::string client = session.hello().GetString("client");
  if (on_connected_ != nullptr && !client.empty()) on_connected_(client);
  host.session.emplace(std::move(session));
  RT_ASSIGN_OR_RETURN(host.looked, host.session->Ask(Request("look", host), limits::kHostAnswer));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const std::string>> HostCluster::Pack(
    const FileMount& mount, const std::vector<std::string>& files) {
  if (files.empty()) return std::make_shared<const std::string>();
  std::lock_guard lock(packed_->mutex);
  auto& made = packed_->made[mount.target() + '\0' + Join(files, std::string_view("\0", 1))];
  if (made == nullptr) {
    RT_ASSIGN_OR_RETURN(std::string bytes, mount.Pack(files));
    made = std::make_shared<const std::string>(std::move(bytes));
  }
  return made;
}

absl::Status HostCluster::SendMounts(Host& host) {
  for (const FileMount& mount : mounts_) {
    Json request = Request("mount", host);
    const Json listing = mount.Listing();
    for (const auto& [key, value] : listing.object()) request.Set(key, value);
    request.Set("serve", IsInCloud());
    RT_ASSIGN_OR_RETURN(const Json looked, host.session->Ask(request, limits::kHostAnswer));
    std::vector<std::string> missing;
    for (const Json& path : looked.Find("missing")->array()) missing.push_back(path.AsString());
    RT_ASSIGN_OR_RETURN(const std::shared_ptr<const std::string> bytes, Pack(mount, missing));
    if (static_cast<Bytes>(bytes->size()) > limits::kMountArchiveMax)
      return Invalid("file_mounts: " + mount.target() + " is too large to be copied to hosts",
                     "put large data on a file system of the hosts, or into a store");
    request.Set("op", "files");
    request.Set("bytes", bytes->size());
    RT_RETURN_IF_ERROR(host.session->Ask(request, limits::kArchiveSend, *bytes).status());
  }
  return absl::OkStatus();
}

absl::Status HostCluster::RunSetup(Host& host, bool is_head) {
  const std::vector<std::string> commands = setup_.CommandsOf(is_head);
  const std::string digest = commands.empty() ? "" : Digest(TextsJson(commands).Dump());
  if (digest == host.looked.GetString("setup")) return absl::OkStatus();
  Json request = Request("setup", host);
  request.Set("commands", TextsJson(commands));
  request.Set("digest", digest);
  RT_ASSIGN_OR_RETURN(const Json done,
                      host.session->Ask(request, limits::kSetupMax + limits::kHostAnswer));
  if (const std::string failed = done.GetString("failed"); !failed.empty())
    host.quarantine = failed + "\n" + done.GetString("log");
  return absl::OkStatus();
}

absl::Status HostCluster::StartHead(Host& host) {
  const Json& looked = *host.looked.Find("head");
  const absl::StatusOr<Context> context = home_.Load(name_);
  const bool is_known = context.ok() && context->cluster_id == looked.GetString("cluster_id");
  Json request = Request("head", host);
  if (head_config_.is_object()) request.Set("config", head_config_);  // Else it stays.
  if (head_config_.is_object() && IsInCloud()) request.Set("mounts", TargetsOf(mounts_));
  request.Set("port", list_.head_port);
  request.Set("cluster_id", list_.cluster_id);
  request.Set("token", is_known ? "" : PersonName());
  RT_ASSIGN_OR_RETURN(const Json head, host.session->Ask(request, limits::kHostAnswer));
  return Admit(host, head);
}

absl::Status HostCluster::Admit(Host& host, const Json& head) {
  head_address_ = head.GetString("address");
  std::string address = head_address_;
  const std::string token = head.GetString("token");
  // The address of a cloud's machine inside its network is none for us.
  if (IsInCloud()) address = Bracketed(host.spec.address) + address.substr(address.rfind(':'));
  absl::StatusOr<Context> context = home_.Load(name_);
  if (!token.empty()) {
    context = RedeemToken(token, address, name_);
    if (absl::IsUnavailable(context.status()))
      return WithHint(absl::UnavailableError(ToAbsl("the head runs on host " + host.spec.name +
                                                    ", but its port cannot be reached from here: " +
                                                    MessageOf(context.status()))),
                      "open TCP port " + address.substr(address.rfind(':') + 1) + " of " +
                          address.substr(0, address.rfind(':')) +
                          " to this machine; 'port' below 'provider' chooses another one");
    if (!context.ok()) return context.status();
  }
  if (!context.ok()) return context.status();
  context->address = address;
  return home_.Add(*context);
}

absl::Status HostCluster::Prepare(Host& host) {
  RT_RETURN_IF_ERROR(Open(host));
  if (host.is_retired) return absl::OkStatus();
  RT_RETURN_IF_ERROR(SendMounts(host));
  RT_RETURN_IF_ERROR(RunSetup(host, host.is_head));
  return host.is_head ? StartHead(host) : absl::OkStatus();
}

absl::Status HostCluster::EnsureHead() {
  RT_RETURN_IF_ERROR(OpenPrograms());
  RT_RETURN_IF_ERROR(Open(hosts_[0]));
  if (hosts_[0].looked.Find("head")->GetBool("alive") && home_.Load(name_).ok())
    return absl::OkStatus();
  return StartHead(hosts_[0]);
}

absl::Status HostCluster::Attach() {
  RT_RETURN_IF_ERROR(OpenPrograms());
  plan_.is_removal = true;
  const absl::Status opened = Open(hosts_[0]);
  if (absl::IsNotFound(opened)) return absl::OkStatus();
  RT_RETURN_IF_ERROR(opened);
  RT_RETURN_IF_ERROR(NoteHosts());
  const bool is_there = !hosts_[0].looked.Find("head")->GetString("cluster_id").empty();
  return is_there ? StartHead(hosts_[0]) : absl::OkStatus();
}

absl::Status HostCluster::StartWorkers() {
  RT_ASSIGN_OR_RETURN(std::unique_ptr<HeadClient> client, ConnectTo(home_, name_));
  const Context context = client->context();
  ForEach([&](Host& host) -> absl::Status {
    if (host.is_retired) return absl::OkStatus();
    Json request = Request("worker", host);
    request.Set("head", head_address_);
    request.Set("cluster_id", context.cluster_id);
    request.Set("resources", host.spec.resources);
    request.Set("labels", host.spec.labels);
    request.Set("quarantine", host.quarantine);
    if (host.looked.Find("worker")->GetString("cluster_id") != context.cluster_id) {
      // A host that was installed anew lost its certificate; its name is still taken.
      RT_RETURN_IF_ERROR(ForgetHost(*client, host.spec.name, "its host has no certificate left"));
      v1::CreateTokenRequest asked;
      asked.set_role("worker");
      asked.set_name(host.spec.name);
      asked.set_ttl_ms(limits::kMachineJoinMax);
      RT_ASSIGN_OR_RETURN(auto token, client->Call<v1::ClusterService>(
                                          &v1::ClusterService::Stub::CreateToken, asked));
      request.Set("token", token.token());
    }
    return host.session->Ask(request, limits::kHostAnswer).status();
  });
  return absl::OkStatus();
}

absl::Status HostCluster::WaitReady(UpReport& report) {
  RT_ASSIGN_OR_RETURN(std::unique_ptr<HeadClient> client, ConnectTo(home_, name_));
  const Millis begun = SteadyClock();
  Millis look_at = begun + kLookAfter;
  while (true) {
    RT_ASSIGN_OR_RETURN(const auto nodes, NodesByName(*client));
    report.ready = 0;
    std::vector<Host*> missing;
    for (Host& host : hosts_) {
      const auto node = nodes.find(host.spec.name);
      const bool is_ready = node != nodes.end() && node->second.GetString("state") == "READY";
      const bool is_said = node != nodes.end() && !node->second.GetString("reason").empty();
      if (is_ready) report.ready += host.is_retired ? 0 : 1;
      else if (!host.is_retired && host.fault.ok() && (host.quarantine.empty() || !is_said))
        missing.push_back(&host);
    }
    if (missing.empty()) return absl::OkStatus();
    const bool is_over = SteadyClock() - begun > kReadyMax;
    if (SteadyClock() >= look_at || is_over) {
      look_at = SteadyClock() + kLookAfter;
      for (Host* host : missing) {
        RT_ASSIGN_OR_RETURN(const Json looked,
                            host->session->Ask(Request("look", *host), limits::kHostAnswer));
        const std::string failure = looked.Find("worker")->GetString("failure");
        if (!failure.empty() || is_over)
          host->fault = absl::DeadlineExceededError(
              ToAbsl(failure.empty() ? "its worker is not READY"
                                     : "its worker does not start: " + failure));
      }
    }
    SleepFor(kPollEvery);
  }
}

// Workers of hosts that the file no longer names.
absl::Status HostCluster::RetireHosts(UpReport& report) {
  const bool some =
      std::any_of(hosts_.begin(), hosts_.end(), [](const Host& host) { return host.is_retired; });
  if (!some) return absl::OkStatus();
  RT_ASSIGN_OR_RETURN(std::unique_ptr<HeadClient> client, ConnectTo(home_, name_));
  ForEach([&](Host& host) -> absl::Status {
    if (!host.is_retired) return absl::OkStatus();
    Json request = Request("stop", host);
    request.Set("at_once", true);
    RT_RETURN_IF_ERROR(host.session->Ask(request, limits::kHostAnswer).status());
    return ForgetHost(*client, host.spec.name, "no longer in the cluster's file");
  });
  for (const Host& host : hosts_) {
    if (host.is_retired && !host.fault.ok())
      report.faults.push_back("its worker was to be removed: " +
                              FaultLine(host.spec.name, host.fault));
  }
  std::erase_if(hosts_, [](const Host& host) { return host.is_retired && host.fault.ok(); });
  return NoteHosts();
}

absl::StatusOr<HostCluster::UpReport> HostCluster::Up(const ClusterSpec& spec) {
  UpReport report;
  for (const auto& [target, source] : setup_.file_mounts) {
    RT_ASSIGN_OR_RETURN(FileMount mount, FileMount::Read(target, AbsolutePath(source)));
    mounts_.push_back(std::move(mount));
  }
  RT_RETURN_IF_ERROR(OpenPrograms());
  RT_RETURN_IF_ERROR(NoteHosts());
  ForEach([this](Host& host) { return Prepare(host); });
  if (!hosts_[0].fault.ok()) return hosts_[0].fault;
  RT_RETURN_IF_ERROR(StartWorkers());
  RT_RETURN_IF_ERROR(WaitReady(report));
  RT_RETURN_IF_ERROR(RetireHosts(report));
  for (const Host& host : hosts_) {
    if (!host.fault.ok() && !host.is_retired)
      report.faults.push_back(FaultLine(host.spec.name, host.fault));
    if (!host.quarantine.empty())
      report.faults.push_back("host " + host.spec.name + " is quarantined: " +
                              host.quarantine.substr(0, host.quarantine.find('\n')) +
                              "; its log: rt node why " + host.spec.name);
  }
  const size_t wanted =
      spec.says_min_workers ? static_cast<size_t>(spec.min_workers) : spec.hosts.hosts.size();
  if (report.ready >= wanted) return report;
  std::string hint = Join(report.faults, "\n      ");
  return WithHint(absl::FailedPreconditionError(ToAbsl("only " + std::to_string(report.ready) +
                                                       " of " + std::to_string(wanted) +
                                                       " workers are READY; the others stay away")),
                  hint);
}

// Removes what this `up` has started. Hosts without a session were never reached.
absl::Status HostCluster::Undo() {
  std::erase_if(hosts_, [](const Host& host) { return !host.session.has_value(); });
  for (Host& host : hosts_) host.fault = absl::OkStatus();
  return Remove(false);
}

absl::Status HostCluster::Remove(bool purge) {
  RT_RETURN_IF_ERROR(OpenPrograms());
  plan_.is_removal = true;
  ForEach([&](Host& host) -> absl::Status {
    const absl::Status opened = Open(host);
    if (absl::IsNotFound(opened) && !host.session.has_value()) return absl::OkStatus();
    RT_RETURN_IF_ERROR(opened);
    RT_RETURN_IF_ERROR(host.session->Ask(Request("stop", host), limits::kHostAnswer).status());
    return purge ? host.session->Ask(Request("purge", host), limits::kHostAnswer).status()
                 : absl::OkStatus();
  });
  std::vector<std::string> faults;
  for (const Host& host : hosts_)
    if (!host.fault.ok()) faults.push_back(FaultLine(host.spec.name, host.fault));
  if (faults.empty()) return home_.Forget(name_);
  std::erase_if(hosts_, [](const Host& host) { return host.fault.ok(); });
  RT_RETURN_IF_ERROR(RemoveTree(home_.ClusterDirectory(name_) + "/context"));
  RT_RETURN_IF_ERROR(NoteHosts());
  return WithHint(absl::FailedPreconditionError(
                      ToAbsl("not everything could be removed: " + Join(faults, "; "))),
                  "repeat 'rt down " + name_ + "' when these hosts can be reached");
}

}  // namespace rt
