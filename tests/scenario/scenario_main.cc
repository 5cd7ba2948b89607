// scenario FILE…: plays stories and compares. A story is made of blocks: commands, "----", and what
// follows from them, up to an empty line. RT_BLESS=1 writes what really follows into the files.
//
//   join NAME cpu=4 [gpu=1] [type=H100] [memory=GIB] [machine=N]   a token, an identity, the first
//   Sync experiment KEY [job=ID] JSON | job KEY JSON run NAME FENCE PID [frozen ROUND | refused
//   ROUND WHY | measured GBPS]   the node says that; also: sync NAME port NAME FENCE PORT  the node
//   keeps a port for the ranks to meet at exit NAME FENCE CODE LAST_SEQ
//   [unseen|suspended|hung|oom|raised|gpu_failed|logged PATTERN] report NAME FENCE SEQ ITERATION
//   JSON checkpoint FENCE SEQ ITERATION MANIFEST JSON | together …    the same, with the other
//   ranks held NODES FENCE SEQ ITERATION MANIFEST JSON     the same, on nodes (a,b), not in the
//   store yet keep NAME TRIAL MANIFEST [stored|gone]    a node that holds one asks, or says what
//   became of it why trial|job ID notice NAME MILLIS|off [REASON]  the node says that it is to go,
//   in so many milliseconds drain NAME [MILLIS] | undrain NAME | abandon NAME   a person; abandon:
//   a lost node is forgotten remove NAME                      the provider wait MILLIS ticks, and
//   Syncs of every node that is not silent stall MILLIS                     the head stands still
//   silence NAME | hear NAME | disconnect NAME | forget NAME FENCE
//   away NAME MILLIS                 its daemon is stopped, and announces to be back by then
//   daemon_ended NAME                the provider saw it end, and starts it again
//   daemon NAME                      its next Sync is that of a new daemon
//   crash                            the log, replayed into an empty core, must give the same one
//   attach EXPERIMENT NAME | asked EXPERIMENT        a driver; what it is asked
//   answer EXPERIMENT SESSION [again] JSON   it has read all so far; again: its last one once more
//   flush                            the sinks are durable
//   state NAME | desired NAME        the node's, as people see it | what it should be doing
//   stop | pause | resume | extend | retry | resize   see person_commands.h
//   executors | listens | release | end | session   see executor_commands.h
//   pool | max_workers | request | wishes | created | failed | listed | terminated |
//   ask | propose | share | gpus | clear     see {provider,lane,gpu}_commands.h
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "common/base/log.h"
#include "common/base/strings.h"
#include "common/spec/gpu_type.h"
#include "head/core/draft.h"
#include "head/view/view.h"
#include "head/view/why.h"
#include "tests/scenario/executor_commands.h"
#include "tests/scenario/gpu_commands.h"
#include "tests/scenario/lane_commands.h"
#include "tests/scenario/node_side.h"
#include "tests/scenario/person_commands.h"
#include "tests/scenario/print.h"
#include "tests/scenario/provider_commands.h"
#include "tests/scenario/words.h"

namespace rt::scenario {
namespace {

constexpr Millis kStart = 1'700'000'000'000;

class Story {
 public:
  // The lines that follow from one command.
  std::vector<std::string> Play(const std::string& line);
  Story() { StartHead(); }

 private:
  void StartHead() {
    Give(input::StartHead{.cluster_id = "cluster-1",
                          .cluster_name = "story",
                          .version = "0.1.0",
                          .pools = pools_,
                          .max_workers = max_workers_});
  }
  Answer Give(const Input& input) {
    Outcome outcome = Step(core_, input, now_);
    for (const Record& record : outcome.records) {
      log_.push_back(record);
      out_.push_back(Print(record));
    }
    if (!outcome.verdict.ok()) out_.push_back("refused: " + outcome.verdict.ToString());
    CheckInvariants(core_);
    return outcome.answer;
  }
  void Sync(NodeSide& node) {
    input::Sync sync{.node = node.id, .incarnation = 1 + node.inventory.incarnation,
                     .sync_seq = ++node.sync_seq, .inventory = node.inventory};
    for (const auto& [fence, observed] : node.observed) sync.observed.push_back(observed);
    sync.profiles = std::exchange(node.profiles, {});
    sync.away_for = node.away_for;
    sync.draining = node.notice_until != 0;
    sync.drain_reason = node.notice;
    sync.drain_for = sync.draining ? node.notice_until - now_ : 0;
    Give(sync);
    // What is no longer desired is ended and forgotten.
    std::map<Fence, Observed> kept;
    for (const DesiredAttempt& wanted : DesiredFor(core_.world, node.id)) {
      auto it = node.observed.find(wanted.fence);
      if (it != node.observed.end()) kept.insert(*it);
    }
    node.observed = std::move(kept);
  }
  void Join(std::istream& words);
  void Wait(Millis span);
  void Crash();
  void Report(std::istream& words);
  void Observe(const std::string& verb, std::istream& words);
  void Commit(const std::string& verb, std::istream& words);
  void Keep(std::istream& words);
  void KeepOutputs(std::istream& words);
  bool Ask(const std::string& verb, std::istream& words);
  void Drive(const std::string& verb, std::istream& words);
  bool OnNode(const std::string& verb, std::istream& words);
  bool OnGpus(const std::string& verb, std::istream& words);
  bool Drain(const std::string& verb, std::istream& words);
  bool Provide(const std::string& verb, std::istream& words);
  bool OnLane(const std::string& verb, std::istream& words);
  void Why(std::istream& words);
  void Submit(const std::string& verb, std::istream& words);

  Core core_;
  Millis now_ = kStart;
  std::vector<Record> log_;
  std::vector<std::string> out_;
  std::vector<PoolSpec> pools_;
  std::optional<uint32_t> max_workers_;  // Of all pools together.
  StoryLane lane_;
  std::map<std::string, NodeSide> nodes_;
  uint64_t answered_from_ = 0, answered_through_ = 0;  // The span of the last answer.
};

void Story::Join(std::istream& words) {
  const std::string name = Next<std::string>(words);
  input::CreateToken token{.token = "token-" + name, .role = "worker", .ttl = 60'000};
  NodeSide& node = nodes_[name];
  for (std::string flag; words >> flag;) TakeFlag(flag, token.machine, node.inventory.resources);
  Give(token);
  node.id = Give(input::UseToken{token.token, name}).node;
  Sync(node);
}

void Story::Wait(Millis span) {
  for (Millis until = now_ + span; now_ < until;) {
    now_ += 100;
    for (auto& [name, node] : nodes_) {
      if (!node.silent && now_ % 500 == 0) Sync(node);
    }
    Give(input::Tick{});
    for (const input::LaneAnswered& late : lane_.Overdue(core_, now_)) Give(late);
  }
}

void Story::Crash() {
  Core fresh;
  for (const Record& record : log_) Apply(fresh.world, record);
  const bool same = CanonicalDump(fresh.world.state) == CanonicalDump(core_.world.state);
  out_.push_back(same ? "replayed: the same state" : "replayed: ANOTHER STATE");
  core_ = std::move(fresh);
  lane_.Crash();
  StartHead();
}

void Story::Report(std::istream& words) {
  const NodeSide& node = nodes_[Next<std::string>(words)];
  const Fence fence = NextFence(words);
  Row row{.seq = Next<uint64_t>(words), .iteration = Next<double>(words)};
  row.timestamp = now_;
  row.metrics = Rest(words);
  const Answer answer = Give(input::Report{node.id, {{fence.attempt, fence.rank, {row}}}});
  for (const ReportVerdict& verdict : answer.verdicts) {
    out_.push_back(verdict.stale ? "verdict: stale"
                                 : "verdict: acked " + std::to_string(verdict.acked_seq) +
                                       (verdict.stop ? ", stop" : ""));
  }
}

void Story::Observe(const std::string& verb, std::istream& words) {
  NodeSide& node = nodes_[Next<std::string>(words)];
  const Fence fence = NextFence(words);
  if (verb == "forget") {
    node.observed.erase(fence);
    return;
  }
  Observed& observed = node.observed[fence];
  observed.fence = fence;
  if (verb == "port") {
    observed.port = Next<uint32_t>(words);
  } else if (verb == "run") {
    observed.phase = Observed::Phase::kRunning;
    TakeRunning(words, observed);
  } else {
    observed.phase = Observed::Phase::kExited;
    observed.exit_code = Next<int32_t>(words);
    observed.last_seq = Next<uint64_t>(words);
    const std::string how = Rest(words);
    observed.witnessed = how != "unseen";
    observed.suspended = how == "suspended";
    observed.hung = how == "hung";
    if (how == "raised") observed.error = {"ValueError", "no data", "Traceback …"};
    if (how == "oom") observed.error.kind = kGpuOutOfMemory;
    if (how == "gpu_failed") observed.gpu_fault = "gpu GPU-0: Xid 79";
    if (how == "untested") observed.untested = observed.launch_failed = true;
    if (how == "untested") observed.reason = "preflight: rt-probe wrote no report: exit code 1";
    if (how.starts_with("slow ")) TakeSlowLink(how.substr(5), observed);
    if (how.starts_with("logged ")) observed.log_matches = {uint32_t(std::stoul(how.substr(7)))};
  }
  Sync(node);
}

void Story::Commit(const std::string& verb, std::istream& words) {
  input::CommitCheckpoint commit;
  if (verb == "held")
    for (const std::string& name : Split(Next<std::string>(words), ','))
      commit.replicas.push_back(nodes_[name].id);
  commit.collective = verb == "together";
  commit.fence = NextFence(words);
  commit.row = {.seq = Next<uint64_t>(words), .iteration = Next<double>(words)};
  commit.manifest = Next<std::string>(words);
  commit.row.timestamp = now_;
  commit.row.metrics = Rest(words);
  commit.bytes = 1'000;
  Give(commit);
}

void Story::Keep(std::istream& words) {
  using ReplicaStatus = input::RenewReplica::ReplicaStatus;
  input::RenewReplica keep{.node = nodes_[Next<std::string>(words)].id};
  keep.owner = Owner::Of(ParseTrialId(Next<std::string>(words)).value_or(TrialId{}));
  keep.manifest = Next<std::string>(words);
  std::string status;
  words >> status;
  keep.status = status == "stored" ? ReplicaStatus::kStored
                : status == "gone" ? ReplicaStatus::kGone
                                   : ReplicaStatus::kNone;
  keep.is_early = status == "early" && words >> keep.attempt >> keep.row;
  const Answer answer = Give(keep);
  if (answer.needed) out_.push_back(answer.push ? "hold, and push" : "hold");
  else out_.push_back(answer.release ? "let go" : "its commit may come");
}

void Story::KeepOutputs(std::istream& words) {
  input::KeepOutputs keep{.node = nodes_[Next<std::string>(words)].id, .fence = NextFence(words)};
  keep.outputs = {.manifest = Next<std::string>(words), .files = 1, .bytes = 1'000};
  keep.outputs.paths = {"work/out.txt"};
  Give(keep);
}

// An answer reaches from where the last one ended to the newest record, unless it is sent again.
void Story::Drive(const std::string& verb, std::istream& words) {
  const ExperimentId id{Next<uint64_t>(words)};
  if (verb == "attach") {
    const Answer answer = Give(input::AttachDriver{id, Next<std::string>(words)});
    out_.push_back("session " + std::to_string(answer.session) + ", answered all but " +
                   std::to_string(core_.world.state.seq - answer.answered_seq));
  } else if (verb == "asked") {
    out_.push_back("asked: " + AskedView(core_, id).Dump());
  } else {
    input::AnswerQuestions answer{.experiment = id, .session = Next<uint64_t>(words)};
    std::string rest = Rest(words);
    if (rest.starts_with("again")) {
      rest = rest.substr(std::string_view("again").size());
    } else {
      answered_from_ = core_.world.state.experiments.at(id).answered_seq;
      answered_through_ = core_.world.state.seq;
    }
    answer.from = answered_from_;
    answer.through = answered_through_;
    const auto said = Json::Parse(rest);
    if (const Json* params = said.ok() ? said->Find("params") : nullptr; params != nullptr)
      answer.suggestions.push_back(
          {static_cast<uint32_t>(said->GetInt("number")), params->Dump()});
    if (const int64_t stop = said.ok() ? said->GetInt("stop", -1) : -1; stop >= 0)
      answer.stops.push_back({static_cast<uint32_t>(stop), true, "not good enough"});
    if (const int64_t pause = said.ok() ? said->GetInt("pause", -1) : -1; pause >= 0)
      answer.pauses.push_back(static_cast<uint32_t>(pause));
    if (const Json* made = said.ok() ? said->Find("explored") : nullptr; made != nullptr)
      answer.explored.push_back({static_cast<uint32_t>(said->GetInt("number")), made->Dump(),
                                 said->GetString("failure")});
    if (const Json* given = said.ok() ? said->Find("allocated") : nullptr; given != nullptr)
      answer.allocated.push_back({static_cast<uint32_t>(said->GetInt("number")), given->Dump()});
    answer.search_finished = said.ok() && said->GetBool("finished");
    Give(answer);
  }
}

void Story::Submit(const std::string& verb, std::istream& words) {
  const std::string key = Next<std::string>(words);
  if (verb == "job") {
    const Answer answer = Give(input::SubmitJob{"ann", Rest(words), key});
    out_.push_back("job " + std::to_string(answer.job.value) +
                   (answer.attached ? ", known already" : ""));
    return;
  }
  JobId driver;
  std::string spec = Rest(words);
  if (spec.starts_with("job=")) {
    driver.value = std::stoull(spec.substr(4));
    spec = spec.substr(spec.find('{'));
  }
  const Answer answer = Give(input::CreateExperiment{"ann", driver, spec, key, 7, "/results"});
  out_.push_back("experiment " + std::to_string(answer.experiment.value) +
                 (answer.attached ? ", known already" : ""));
}

bool Story::OnGpus(const std::string& verb, std::istream& words) {
  if (verb != "gpus" && verb != "clear" && verb != "faulty") return false;
  NodeSide& node = nodes_[Next<std::string>(words)];
  if (verb == "clear") return Give(ClearFrom(node.id, words)), true;
  if (verb == "faulty") return Give(FaultFrom(node.id, words)), true;
  NameGpus(node.inventory, words);
  return Sync(node), true;
}

bool Story::Drain(const std::string& verb, std::istream& words) {
  if (verb != "notice" && verb != "drain" && verb != "undrain" && verb != "remove" &&
      verb != "abandon") {
    return false;
  }
  NodeSide& node = nodes_[Next<std::string>(words)];
  const std::string span = Next<std::string>(words);
  const Millis deadline = span.empty() || span == "off" || span == "links" ? 0 : std::stoll(span);
  if (verb == "notice") {
    node.notice_until = span == "off" ? 0 : now_ + deadline;
    node.notice = Rest(words);
    Sync(node);
  } else if (verb == "drain") {
    Give(input::DrainNode{node.id, "by hand", deadline});
  } else if (verb == "remove") {
    Give(input::RemoveNode{node.id, "by hand"});
  } else if (verb == "abandon") {
    Give(input::ForgetNode{node.id, "by hand"});
  } else {
    Give(input::UndrainNode{.node = node.id, .links = span == "links"});
  }
  return true;
}

bool Story::Provide(const std::string& verb, std::istream& words) {
  if (verb == "pool") {
    PoolSpec pool = ReadPool(words);
    std::erase_if(pools_, [&](const PoolSpec& one) { return one.name == pool.name; });
    pools_.push_back(std::move(pool));
    StartHead();
  } else if (verb == "max_workers") {
    max_workers_ = Next<uint32_t>(words);
    StartHead();
  } else if (verb == "wishes") {
    out_.push_back(PrintWishes(core_, now_));
  } else if (const std::optional<Input> answer = ProviderAnswer(verb, words, now_)) {
    Give(*answer);
  } else {
    return false;
  }
  return true;
}

bool Story::OnLane(const std::string& verb, std::istream& words) {
  if (verb == "ask") {
    for (std::string& line : lane_.Ask(core_, now_)) out_.push_back(std::move(line));
  } else if (verb == "propose") {
    if (const std::optional<Input> answer = lane_.Answer(words)) Give(*answer);
  } else if (verb == "share") {
    if (const std::optional<Input> answer = lane_.Share(words)) Give(*answer);
  } else {
    return false;
  }
  return true;
}

bool Story::Ask(const std::string& verb, std::istream& words) {
  if (verb == "session") {
    for (std::string& line : ShowSession(core_, now_, words)) out_.push_back(std::move(line));
    return true;
  }
  std::optional<Input> request = PersonsRequest(verb, words);
  if (!request.has_value()) request = DriversRequest(verb, words);
  if (request.has_value()) Give(*request);
  return request.has_value();
}

void Story::Why(std::istream& words) {
  const std::string noun = Next<std::string>(words), id = Next<std::string>(words);
  const Owner owner = noun == "job" ? Owner::Of(JobId{std::stoull(id)})
                                    : Owner::Of(ParseTrialId(id).value_or(TrialId{}));
  const Waiting waiting = WhyWaiting(core_, owner, now_);
  out_.push_back("why: it " + waiting.reason + " [" + waiting.frees + "]");
}

bool Story::OnNode(const std::string& verb, std::istream& words) {
  if (verb != "sync" && verb != "silence" && verb != "hear" && verb != "disconnect" &&
      verb != "desired" && verb != "daemon" && verb != "daemon_ended" && verb != "away" &&
      verb != "state") {
    return false;
  }
  NodeSide& node = nodes_[Next<std::string>(words)];
  if (verb == "daemon") {
    ++node.inventory.incarnation;
    node.sync_seq = 0;
  }
  if (verb == "away") {
    node.away_for = Next<Millis>(words);
    Sync(node);
    node.away_for = 0;
    node.silent = true;
  }
  if (verb == "state")
    out_.push_back("state: " +
                   std::string(NodeStateName(core_, core_.world.state.nodes.at(node.id))));
  if (verb == "sync") node.profiles = ReadMeasured(words), Sync(node);
  if (verb == "silence") node.silent = true;
  if (verb == "hear") node.silent = false;
  if (verb == "disconnect") Give(input::Disconnected{node.id, 1 + node.inventory.incarnation});
  if (verb == "daemon_ended") Give(input::DaemonEnded{core_.world.state.nodes.at(node.id).name});
  if (verb == "desired") out_.push_back(Print(DesiredFor(core_.world, node.id)));
  return true;
}

std::vector<std::string> Story::Play(const std::string& line) {
  std::istringstream words(line);
  const std::string verb = Next<std::string>(words);
  if (verb == "join") {
    Join(words);
  } else if (verb == "experiment" || verb == "job") {
    Submit(verb, words);
  } else if (verb == "run" || verb == "port" || verb == "exit" || verb == "forget") {
    Observe(verb, words);
  } else if (verb == "report") {
    Report(words);
  } else if (verb == "checkpoint" || verb == "together" || verb == "held") {
    Commit(verb, words);
  } else if (verb == "outputs") {
    KeepOutputs(words);
  } else if (verb == "keep") {
    Keep(words);
  } else if (verb == "attach" || verb == "asked" || verb == "answer") {
    Drive(verb, words);
  } else if (verb == "why") {
    Why(words);
  } else if (verb == "wait") {
    Wait(Next<Millis>(words));
  } else if (verb == "stall") {
    now_ += Next<Millis>(words);
  } else if (verb == "crash") {
    Crash();
  } else if (verb == "flush") {
    Give(input::SinksFlushed{core_.world.state.seq});
  } else if (!OnNode(verb, words) && !Drain(verb, words) && !OnGpus(verb, words) &&
             !Provide(verb, words) && !OnLane(verb, words) && !Ask(verb, words)) {
    out_.push_back("no such command: " + line);
  }
  return std::exchange(out_, {});
}

// Plays the file; returns it as it should read.
std::string Replay(const std::string& text) {
  Story story;
  story.Play("wait 0");
  std::string result;
  std::vector<std::string> commands;
  bool skipping = false;
  for (const std::string& line : Split(text, '\n')) {
    if (skipping && !line.empty()) continue;  // The old answer.
    skipping = false;
    if (line == "----") {
      result += "----\n";
      for (const std::string& command : commands) {
        for (const std::string& said : story.Play(command)) result += said + "\n";
      }
      commands.clear();
      skipping = true;
      continue;
    }
    if (!line.empty() && line[0] != '#') commands.push_back(line);
    result += line + "\n";
  }
  while (result.ends_with("\n\n")) result.pop_back();
  return result;
}

}  // namespace
}  // namespace rt::scenario

int main(int argc, char** argv) {
  rt::SetLogLevel(rt::LogLevel::kError);
  const bool bless = std::getenv("RT_BLESS") != nullptr;
  int failed = 0;
  for (int i = 1; i < argc; ++i) {
    std::ostringstream text;
    text << std::ifstream(argv[i]).rdbuf();
    const std::string real = rt::scenario::Replay(text.str());
    if (real == text.str() && !real.empty()) continue;
    if (bless) {
      std::ofstream(argv[i]) << real;
      continue;
    }
    rt::scenario::ExplainDifference(argv[i], text.str(), real);
    ++failed;
  }
  if (failed > 0) std::fprintf(stderr, "RT_BLESS=1 rewrites the files; read the diff.\n");
  return failed > 0 ? 1 : 0;
}
