#include <signal.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/provider/local_provider.h"
#include "common/run/files.h"
#include "common/run/subprocess.h"
#include "head/options.h"
#include "head/service/auth.h"
#include "head/service/log_hub.h"
#include "rt/v1/boot.pb.h"
#include "rt/v1/checkpoint.pb.h"
#include "rt/v1/cluster.pb.h"
#include "rt/v1/experiment.pb.h"
#include "rt/v1/job.pb.h"
#include "rt/v1/task.pb.h"
#include "rt/v1/worker.pb.h"
#include "tests/temp_dir.h"

using namespace rt;

namespace {

std::set<std::string> WireMethods() {
  std::set<std::string> methods;
  for (const google::protobuf::FileDescriptor* file :
       {v1::SetupReply::descriptor()->file(), v1::JoinRequest::descriptor()->file(),
        v1::WaitRequest::descriptor()->file(), v1::JobRef::descriptor()->file(),
        v1::SyncRequest::descriptor()->file(), v1::PullRequest::descriptor()->file(),
        v1::TaskBytes::descriptor()->file()})
    for (int s = 0; s < file->service_count(); ++s)
      for (int m = 0; m < file->service(s)->method_count(); ++m)
        methods.insert(file->service(s)->name() + "/" + file->service(s)->method(m)->name());
  return methods;
}

// The role table of docs/security.md. "Blob: all" names all methods of a service.
std::map<std::string, std::set<std::string>> DocumentedRoles() {
  std::map<std::string, std::set<std::string>> documented;
  std::vector<std::string> roles;
  for (const std::string& line : Split(*ReadFile(RT_DOCS "/security.md"), '\n')) {
    std::vector<std::string> cells = Split(line, '|');
    for (std::string& cell : cells) cell = std::string(Trim(cell));
    if (cells.size() != 8) continue;
    if (cells[1] == "methods") roles.assign(cells.begin() + 2, cells.end() - 1);
    const size_t colon = cells[1].find(": ");
    if (roles.empty() || colon == std::string::npos) continue;
    const std::string service = cells[1].substr(0, colon) + "Service/";
    std::vector<std::string> methods = Split(cells[1].substr(colon + 2), ',');
    if (methods[0] == "all") {
      methods.clear();
      for (const std::string& method : AuthMethods())
        if (method.starts_with(service)) methods.push_back(method.substr(service.size()));
    }
    for (const std::string& method : methods) {
      const std::string name(Trim(method.substr(0, method.find(" ("))));
      std::set<std::string>& known = documented[service + name];
      for (size_t i = 0; i < roles.size(); ++i)
        if (cells[i + 2] == "x") known.insert(roles[i]);
    }
  }
  return documented;
}

}  // namespace

TEST_CASE("auth: the role table of the documentation is the one that is enforced") {
  const auto documented = DocumentedRoles();
  CHECK(documented.size() == AuthMethods().size());
  for (const std::string& method : AuthMethods()) {
    INFO(method);
    REQUIRE(documented.contains(method));
    for (const char* role : {"admin", "user", "viewer", "worker", "join"}) {
      INFO(role);
      CHECK(documented.at(method).contains(role) == IsAllowed(method, role));
    }
  }
}

TEST_CASE("auth: every method of the wire has an entry, and every entry a method") {
  std::set<std::string> wire = WireMethods();
  CHECK(wire.size() > 25);
  for (const std::string& method : wire) {
    INFO(method);
    CHECK(HasAuthEntry(method));
  }
  for (const std::string& method : AuthMethods()) {
    INFO(method);
    CHECK(wire.count(method) == 1);
  }
}

TEST_CASE("auth: what is not in the table is denied to everybody") {
  for (const char* role : {"admin", "user", "viewer", "worker", "join", "head", ""})
    CHECK(!IsAllowed("ClusterService/NoSuchCall", role));
}

TEST_CASE("auth: roles have no more than their rights") {
  CHECK(IsAllowed("ClusterService/Join", "join"));
  for (const std::string& method : AuthMethods()) {
    const bool is_before_join =
        method == "ClusterService/Join" || method.starts_with("BootService/");
    CHECK(IsAllowed(method, "join") == is_before_join);
  }
  CHECK(!IsAllowed("ClusterService/Join", "admin"));
  CHECK(!IsAllowed("ExperimentService/Create", "viewer"));
  CHECK(!IsAllowed("ClusterService/CreateToken", "user"));
  CHECK(!IsAllowed("WorkerService/Sync", "admin"));
  CHECK(!IsAllowed("ExperimentService/Create", "worker"));
}

TEST_CASE("auth: another cluster's certificate is refused; a node speaks for itself only") {
  Identity node{.cluster_id = "c1", .kind = "node", .name = "7", .role = "worker"};
  CHECK(Authorize("WorkerService/Sync", node, "c1").ok());
  CHECK(absl::IsUnauthenticated(Authorize("WorkerService/Sync", node, "c2")));
  CHECK(NodeOf(node)->value == 7);
  for (const char* name : {"", "0", "7x", "-1", "x"}) {
    node.name = name;
    CHECK(!NodeOf(node).ok());
  }
  CHECK(!NodeOf({.cluster_id = "c1", .kind = "user", .name = "7", .role = "worker"}).ok());
}

TEST_CASE("auth: a viewer sees the names of an experiment's environment, not the values") {
  const Json experiment = *Json::Parse(
      R"({"id":1,"spec":{"command":["x"],"env":{"API_KEY":"secret","N":"1"}}})");
  for (const char* role : {"admin", "user"})
    CHECK(ShownTo({.role = role}, experiment) == experiment);
  CHECK(ShownTo({.role = "viewer"}, experiment).Dump() ==
        R"({"id":1,"spec":{"command":["x"],"env":{"API_KEY":"***","N":"***"}}})");
  CHECK(ShownTo({.role = "viewer"}, *Json::Parse(R"({"spec":{"env":"secret"}})")).Dump() ==
        R"({"spec":{"env":null}})");
  CHECK(ShownTo({.role = "viewer"}, *Json::Parse(R"({"spec":null})")).Dump() ==
        R"({"spec":null})");
}

TEST_CASE("log hub: a request is told until a stream answers it, and only to its node") {
  LogHub hub;
  LogQuery query{.fence = {{Owner::Of(JobId{1}), 1, 1}, 0}, .stream = "stdout"};
  auto [id, relay] = hub.Add(NodeId{1}, query);
  CHECK(hub.HasUntold(NodeId{1}));
  CHECK(!hub.HasUntold(NodeId{2}));
  CHECK(hub.OpenFor(NodeId{2}).empty());
  CHECK(hub.OpenFor(NodeId{1}).size() == 1);
  CHECK(!hub.HasUntold(NodeId{1}));
  CHECK(hub.Attach(NodeId{2}, id) == nullptr);
  CHECK(hub.Attach(NodeId{1}, id) == relay);
  CHECK(hub.Attach(NodeId{1}, id) == nullptr);
  CHECK(hub.OpenFor(NodeId{1}).empty());
}

TEST_CASE("log relay: a full relay holds the sender until the reader made room") {
  LogRelay relay;
  int rooms = 0;
  int pushed = 0;
  auto room = [&] { ++rooms; };
  while (relay.Push({.data = std::string(1 << 20, 'x')}, room)) REQUIRE(++pushed < 100);
  CHECK(rooms == 0);
  while (relay.Pop()) continue;
  CHECK(rooms == 1);
  CHECK(!relay.drained());
  relay.CloseSender();
  CHECK(relay.drained());
}

TEST_CASE("rt-head: mistakes on the command line are named") {
  CHECK(ParseHeadOptions({"--help"})->help);
  CHECK(!ParseHeadOptions({}).ok());
  CHECK(!ParseHeadOptions({"--state-dir"}).ok());
  CHECK(!ParseHeadOptions({"--state-dir", "/x", "--listen", "nowhere"}).ok());
  CHECK(!ParseHeadOptions({"--state-dir", "/x", "--lifeline", "three"}).ok());
  auto slip = ParseHeadOptions({"--state-dri", "/x"});
  REQUIRE(!slip.ok());
  CHECK(HintOf(slip.status()) == "did you mean '--state-dir'?");
  auto good = ParseHeadOptions({"--state-dir=/x/", "--lifeline", "3"});
  REQUIRE(good.ok());
  CHECK(good->state_dir == "/x");
  CHECK(good->lifeline == 3);
}

namespace {

// The process that `path` names, if it runs.
ProcessIdentity Running(const std::string& path) {
  auto text = ReadFile(path);
  pid_t pid = 0;
  if (text.ok()) std::istringstream(*text) >> pid;
  auto process =
      pid > 0 ? ReadProcessIdentity(pid) : absl::StatusOr<ProcessIdentity>(NotFound("-"));
  return process.ok() && IsAlive(*process) ? *process : ProcessIdentity{};
}
bool Within(int milliseconds, const std::function<bool()>& condition) {
  auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace

TEST_CASE("local provider: a dead worker is started again, an orphan is adopted, never doubled") {
  TempDir dir("provider");
  const std::string& directory = dir.path();
  const std::string program = directory + "/worker.sh";
  const char* script = "#!/bin/sh\necho up >&2\nexec sleep 600\n";
  REQUIRE(WriteFileAtomic(program, script, {.mode = 0700}).ok());
  LocalProvider::Options options{
      .context = {.cluster_id = "c",
                  .cluster_dir = directory,
                  .worker_program = program,
                  .head_address = "127.0.0.1:1",
                  .make_token = [](uint64_t, const std::string&) { return std::string("token"); }},
      .workers = {{.name = "worker-1", .resources = "", .labels = ""}}};
  const std::string pid_file = directory + "/worker-1/pid";
  auto provider = LocalProvider::Start(options);
  REQUIRE(Within(5'000, [&] { return Running(pid_file).pid != 0; }));
  ProcessIdentity first = Running(pid_file);
  kill(first.pid, SIGKILL);
  REQUIRE(Within(5'000, [&] {
    ProcessIdentity now = Running(pid_file);
    return now.pid != 0 && now != first;
  }));
  ProcessIdentity second = Running(pid_file);

  provider.reset();  // The head ends; its worker stays.
  CHECK(IsAlive(second));
  // The second worker is started after the first one was looked for.
  options.workers.push_back({.name = "worker-2", .resources = "", .labels = ""});
  provider = LocalProvider::Start(options);
  REQUIRE(Within(5'000, [&] { return Running(directory + "/worker-2/pid").pid != 0; }));
  CHECK(Running(pid_file) == second);
  provider->EndAll();
  CHECK(!IsAlive(second));
  CHECK(ReadFile(directory + "/worker-1/token").value() == "token\n");
}
