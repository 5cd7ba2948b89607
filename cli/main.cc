// `rt`: reads the command line (the only user of CLI11), runs one verb, prints its error.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>

#include "cli/commands/commands.h"
#include "cli/home.h"
#include "cli/invocation.h"
#include "cli/render/error.h"
#include "cli/render/man.h"
#include "cli/report.h"
#include "cli/teardown.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"
#include "common/rpc/channel.h"

namespace rt {
namespace {

const CLI::Range kCount(1, 1'000'000'000);

using Verb = ExitCode (*)(const Invocation&);

ExitCode RunReport(const Invocation& invocation) {
  return Report({.assignments = invocation.words,
                 .step = invocation.step,
                 .checkpoint = invocation.checkpoint,
                 .wait = invocation.wait,
                 .json = invocation.output == Output::kJson});
}

class CommandLine {
 public:
  CommandLine() : app_("Runs deep-learning experiments on machines that may vanish.", "rt") {
    app_.require_subcommand(1);
    app_.fallthrough();
    app_.set_version_flag("--version", "rt " RT_VERSION);
    app_.add_option("-c,--cluster", invocation_.cluster, "The cluster (else RT_CLUSTER, current)");
    app_.add_option("-o,--output", output_, "table, json or quiet");
    app_.add_option("--color", color_, "auto, always or never");
    app_.add_flag("-v,--verbose", invocation_.verbose, "Say more");
    app_.footer("Examples:\n  rt up cluster.yaml\n  rt submit train.py -- --lr 0.1\n"
                "  rt submit search.yaml\n  rt watch\n  rt doctor\n  rt down");
    AddCluster();
    AddSubmit();
    AddNouns();
    AddRest();
  }

  // The verb to run, or the exit code when there is none to run.
  absl::StatusOr<Verb> Parse(std::vector<std::string> words, int& code) {
    auto dashes = std::find(words.begin(), words.end(), "--");
    if (dashes != words.end()) {
      invocation_.arguments.assign(dashes + 1, words.end());
      words.erase(dashes, words.end());
    }
    NoteOutput(words);
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    try {
      app_.parse(reversed);
    } catch (const CLI::Success& help) {
      code = app_.exit(help);
      return Verb{nullptr};
    } catch (const CLI::ParseError& error) {
      return Explain(error, words);
    }
    RT_RETURN_IF_ERROR(Settle());
    CLI::App* chosen = &app_;
    while (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands()[0];
    auto found = verbs_.find(chosen);
    if (found == verbs_.end()) return Invalid("which verb?", chosen->get_name() + " --help");
    if (!invocation_.arguments.empty() && chosen->get_name() != "submit")
      return Invalid("only rt submit takes arguments after --");
    // Of a variable that is not set: that must not mean the last one, or this cluster.
    const auto& given = invocation_.words;
    if (chosen->get_name() != "report" && std::find(given.begin(), given.end(), "") != given.end())
      return Invalid("an empty word names nothing", HelpOf(chosen));
    return found->second;
  }

  // Candidates for the last word of a command line that is being typed, one a line; none where a
  // file belongs.
  std::vector<std::string> Complete(const std::vector<std::string>& words) {
    CLI::App* level = &app_;
    std::string before;
    for (size_t i = 0; i + 1 < words.size(); ++i) {
      CLI::App* next = TakesValue(level, before) ? nullptr : ChildOf(level, words[i]);
      before = words[i];
      if (next != nullptr) level = next;
    }
    std::string typed = words.empty() ? "" : words.back();
    std::vector<std::string> matching;
    for (const std::string& candidate : CandidatesAt(level, before, typed))
      if (candidate.starts_with(typed)) matching.push_back(candidate);
    return matching;
  }
  // A manual page for rt and for each of its commands.
  absl::Status WriteManuals(const std::string& directory) {
    return WriteManual(&app_, "rt", directory);
  }

  const Invocation& invocation() const { return invocation_; }

 private:
  CLI::App* Add(CLI::App* parent, const std::string& name, const std::string& what, Verb verb,
                const std::string& examples) {
    CLI::App* app = parent->add_subcommand(name, what);
    app->fallthrough();
    app->footer("Examples:\n" + examples);
    if (verb != nullptr) verbs_[app] = verb;
    return app;
  }
  void Words(CLI::App* app, const std::string& name, const std::string& what) {
    app->add_option(name, invocation_.words, what);
  }
  CLI::App* AddNoun(const std::string& name, const std::string& alias, const std::string& what) {
    std::string show = alias.empty() ? "" : "\n  rt " + name + " show last";
    CLI::App* noun = Add(&app_, name, what, nullptr, "  rt " + name + " list" + show);
    if (!alias.empty()) noun->alias(alias);
    noun->require_subcommand(1);
    return noun;
  }
  void AddCluster() {
    CLI::App* up = Add(&app_, "up", "Bring a cluster up, or back to health", RunUp,
                       "  rt up cluster.yaml");
    Words(up, "CLUSTER.yaml", "The cluster");
    CLI::App* down = Add(&app_, "down", "Take a cluster down; its history is archived", RunDown,
                         "  rt down cluster.yaml\n  rt down -c demo\n"
                         "  rt down demo --purge");
    Words(down, "CLUSTER.yaml", "The cluster's file or name");
    down->add_flag("--purge", invocation_.purge, "Delete its history instead of archiving it");
    AddNoDownload(down);
    Add(&app_, "status", "Cluster, nodes, experiments, jobs, and why things wait", RunStatus,
        "  rt status\n  rt status -o json");
  }
  void AddNoDownload(CLI::App* app) {
    app->add_flag("--no-download", invocation_.no_download,
                  "Leave checkpoints and output on the cluster");
  }
  void AddSubmit() {
    CLI::App* submit =
        Add(&app_, "submit", "Run a script or an experiment on a cluster", RunSubmit,
            "  rt submit train.py -- --lr 0.1\n  rt submit search.yaml\n"
            "  rt submit cluster.yaml --start --stop train.py\n  rt submit --detach ./run.sh");
    Words(submit, "SCRIPT", "[CLUSTER.yaml] SCRIPT");
    submit->add_flag("--start", invocation_.start, "Bring the cluster up if it is not");
    submit->add_flag("--stop", invocation_.stop, "Afterwards take down what --start brought up");
    submit->add_flag("--detach", invocation_.detach, "Print the id and return");
    AddNoDownload(submit);
    submit->add_option("--name", invocation_.name, "A name for it");
    submit->add_option("--args", invocation_.args, "Arguments as one text, split as a shell does");
  }
  CLI::App* AddList(CLI::App* noun, Verb verb) {
    CLI::App* list = Add(noun, "list", "One line each", verb,
                         "  rt " + noun->get_name() + " list -o json");
    list->add_option("--limit", invocation_.limit, "At most so many")->check(kCount);
    return list;
  }
  CLI::App* AddOne(CLI::App* noun, const std::string& name, const std::string& what, Verb verb) {
    CLI::App* app = Add(noun, name, what, verb,
                        "  rt " + noun->get_name() + " " + name + " last\n  rt " +
                            noun->get_name() + " " + name + " 3,5-8");
    Words(app, "SELECTOR", "Ids such as 3,5-8, last, all, or a name");
    if (name == "stop" || name == "pause") app->add_option("--reason", invocation_.reason, "Why");
    if (name == "logs") AddLogFlags(app);
    return app;
  }
  void AddLogFlags(CLI::App* app) {
    app->add_flag("-f,--follow", invocation_.follow, "Go on until it ends");
    app->add_option("--tail", invocation_.tail, "From so many lines before the end")
        ->check(kCount);
    app->add_option("--rank", invocation_.rank, "Of a trial with several ranks; 0 when not given");
    app->add_option("--stream", invocation_.stream, "stdout or stderr; both when not given");
  }
  void AddExperimentResults(CLI::App* experiment) {
    CLI::App* best = Add(experiment, "best", "Its best trials", RunExperimentBest,
                         "  rt exp best\n  rt exp best 3 --limit 5 -o json");
    Words(best, "SELECTOR", "An id, a name, or last");
    best->add_option("--limit", invocation_.limit, "So many of them; 1 when not given")
        ->check(kCount);
    Words(Add(experiment, "download", "Its results, output and checkpoints, into a directory",
              RunExperimentDownload, "  rt exp download 3\n  rt exp download last results/"),
          "EXP", "An id, a name, or last; then the directory");
    CLI::App* dump = Add(experiment, "export", "All its trials, for other programs",
                         RunExperimentExport,
                         "  rt exp export last > trials.csv\n"
                         "  rt exp export 3 --rows --format json > rows.json");
    Words(dump, "SELECTOR", "An id, a name, or last");
    dump->add_option("--format", invocation_.format, "csv or json; csv when not given");
    dump->add_flag("--rows", invocation_.rows, "Every report instead of one line per trial");
  }
  void AddCheckpoint(CLI::App* trial) {
    CLI::App* checkpoint = Add(trial, "checkpoint", "Fetch its newest checkpoint",
                               RunTrialCheckpoint, "  rt trial checkpoint 3/1\n"
                               "  rt trial checkpoint 3/1 model/ --best");
    Words(checkpoint, "TRIAL", "Its id; then the directory");
    checkpoint->add_option("--id", invocation_.checkpoint_id, "This one, as trial show lists them")
        ->check(kCount);
    checkpoint->add_flag("--best", invocation_.best, "The best by the experiment's metric");
  }
  void AddNouns() {
    CLI::App* experiment = AddNoun("exp", "e", "Experiments");
    AddList(experiment, RunExperimentList);
    AddOne(experiment, "show", "All that is known of it", RunExperimentShow);
    AddOne(experiment, "stop", "Stop it and its trials", RunExperimentStop);
    AddOne(experiment, "pause", "Let its trials save and end, to go on later", RunExperimentPause);
    CLI::App* resume = AddOne(experiment, "resume", "Go on with one that is paused or was stopped",
                              RunExperimentResume);
    resume->add_flag("--failed", invocation_.failed, "Trials that failed go on as well");
    resume->add_flag("--restart-failed", invocation_.from_scratch,
                     "Trials that failed start from scratch");
    CLI::App* extend = AddOne(experiment, "extend", "Add trials or time, also to one that is over",
                              RunExperimentExtend);
    extend->add_option("--samples", invocation_.samples, "So many more samples of its space")
        ->check(kCount);
    extend->add_option("--time", invocation_.time, "So much more time, such as 30m");
    AddExperimentResults(experiment);
    CLI::App* trial = AddNoun("trial", "t", "Trials; an id is EXPERIMENT/NUMBER");
    AddList(trial, RunTrialList)
        ->add_option("--exp", invocation_.experiment, "Those of this experiment");
    AddOne(trial, "show", "All that is known of it", RunTrialShow);
    AddOne(trial, "stop", "Stop it", RunTrialStop);
    AddOne(trial, "pause", "Let it save and end, to go on later", RunTrialPause);
    AddOne(trial, "resume", "Go on with one that is paused", RunTrialResume);
    AddOne(trial, "retry", "Run one that failed or was stopped again", RunTrialRetry)
        ->add_flag("--from-scratch", invocation_.from_scratch, "Without its checkpoints");
    AddOne(trial, "why", "Why it waits, runs or ended", RunTrialWhy);
    AddOne(trial, "logs", "Its output", RunTrialLogs);
    AddCheckpoint(trial);
    CLI::App* job = AddNoun("job", "j", "Jobs");
    AddList(job, RunJobList);
    AddOne(job, "show", "All that is known of it", RunJobShow);
    AddOne(job, "stop", "Stop it", RunJobStop);
    AddOne(job, "logs", "Its output", RunJobLogs);
    CLI::App* node = AddNoun("node", "n", "Nodes");
    AddList(node, RunNodeList);
    AddOne(node, "show", "All that is known of it", RunNodeShow);
    AddOne(node, "logs", "What its daemon says", RunNodeLogs);
    AddOne(node, "why", "Why it takes work or does not", RunNodeWhy);
    CLI::App* drain = AddOne(node, "drain", "Let its trials save and go on elsewhere; no new work",
                             RunNodeDrain);
    drain->add_option("--deadline", invocation_.deadline,
                      "After so long (2m) what is left there is ended as well; else never");
    drain->add_option("--reason", invocation_.reason, "Why");
    AddOne(node, "undrain", "Let it take work again", RunNodeUndrain);
  }
  void AddRest() {
    CLI::App* logs = Add(&app_, "logs", "The output of a trial or a job, or a daemon's",
                         RunLogs, "  rt logs -f 1/4\n  rt logs j3\n  rt logs worker-1");
    Words(logs, "TRIAL|JOB|NODE", "1/4, j3, worker-1");
    AddLogFlags(logs);
    Words(Add(&app_, "watch", "A live screen of an experiment, or of the cluster", RunWatch,
              "  rt watch\n  rt watch last"),
          "EXP", "An experiment's id or name; the whole cluster when not given");
    Add(&app_, "doctor", "What may be wrong, and what to do about it", RunDoctor,
        "  rt doctor\n  rt doctor -c lab -o json");
    Words(Add(&app_, "plan", "What a YAML would start; nothing is started", RunPlan,
              "  rt plan search.yaml\n  rt plan cluster.yaml -o json"),
          "FILE", "An experiment or a cluster");
    CLI::App* report = Add(&app_, "report", "Metrics from a shell trial", RunReport,
                           "  rt report loss=0.31 accuracy=0.9\n"
                           "  rt report loss=0.31 --step 4 --checkpoint model/\n"
                           "  [ \"$(rt report loss=0.31 --wait)\" = stop ] && exit");
    Words(report, "NAME=VALUE", "Numbers, true, false, or texts");
    report->add_option("--step", invocation_.step, "training_iteration; counted when not given");
    report->add_option("--checkpoint", invocation_.checkpoint,
                       "A directory or file; committed before the command returns");
    report->add_flag("--wait", invocation_.wait, "Print what the head decides: continue or stop");
    CLI::App* context = AddNoun("context", "", "The clusters that this user knows");
    Add(context, "list", "All of them", RunContextList, "  rt context list");
    Words(Add(context, "use", "Make one current", RunContextUse, "  rt context use lab"), "NAME",
          "Its name");
    CLI::App* add = Add(context, "add", "Know one more", RunContextAdd,
                        "  rt context add lab --from /var/lib/rt-head/admin\n"
                        "  rt context add lab --head lab.lan:7070 --token-file token");
    Words(add, "NAME", "Its name");
    add->add_option("--from", invocation_.from, "The admin directory of its head");
    add->add_option("--head", invocation_.head, "ADDR:PORT of its head, with --token-file");
    add->add_option("--token-file", invocation_.token_file,
                    "Holds the text of a user's token; - is standard input");
    CLI::App* token = AddNoun("token", "", "Join tokens (admin only)");
    CLI::App* create = Add(token, "create", "Print a single-use token", RunTokenCreate,
                           "  rt token create --role worker --ttl 1h");
    create->add_option("--role", invocation_.role, "worker, user, viewer or admin");
    create->add_option("--ttl", invocation_.ttl, "How long it can be used, such as 90m");
    Add(token, "list", "Those that can still be used", RunTokenList, "  rt token list");
    Words(Add(token, "revoke", "Make a token useless", RunTokenRevoke, "  rt token revoke ID"),
          "ID", "Its id");
    CLI::App* bridge = Add(&app_, "bridge", "JSON lines on standard input, for drivers", RunBridge,
                           "  rt bridge\n  rt bridge --local --cpus 4");
    bridge->add_flag("--local", invocation_.local, "With a private cluster that ends with it");
    bridge->add_option("--cpus", invocation_.cpus, "Of the private cluster's worker");
    bridge->add_option("--gpus", invocation_.gpus, "Of the private cluster's worker");
    bridge->add_option("--state", invocation_.state, "Of a private cluster that was kept: go on");
    Words(Add(&app_, "completion", "A completion script for a shell", RunCompletion,
              "  rt completion bash > /etc/bash_completion.d/rt"),
          "SHELL", "bash, zsh or fish");
  }

  static CLI::App* ChildOf(CLI::App* level, const std::string& word) {
    for (CLI::App* child : level->get_subcommands([](CLI::App*) { return true; }))
      if (child->check_name(word)) return child;
    return nullptr;
  }
  // Whether `word` is a flag of this level, or of one above, that is followed by its value.
  static bool TakesValue(const CLI::App* level, const std::string& word) {
    if (!word.starts_with("-") || word.find('=') != std::string::npos) return false;
    for (; level != nullptr; level = level->get_parent())
      if (const CLI::Option* option = level->get_option_no_throw(word))
        return option->get_items_expected_max() > 0;
    return false;
  }
  static std::vector<std::string> ContextNames() {
    absl::StatusOr<Home> home = Home::Open();
    return home.ok() ? home->ClusterNames() : std::vector<std::string>();
  }
  static std::vector<std::string> CandidatesAt(CLI::App* level, const std::string& before,
                                               const std::string& typed) {
    if (TakesValue(level, before)) {
      if (before == "-c" || before == "--cluster") return ContextNames();
      if (before == "-o" || before == "--output") return {"table", "json", "quiet"};
      if (before == "--color") return {"auto", "always", "never"};
      if (before == "--format") return {"csv", "json"};
      if (before == "--stream") return {"stdout", "stderr"};
      if (before == "--role") return {"worker", "user", "viewer", "admin"};
      return {};
    }
    if (typed.starts_with("-")) return FlagsAt(level);
    std::vector<std::string> names;
    for (CLI::App* app : level->get_subcommands([](CLI::App*) { return true; }))
      names.push_back(app->get_name());
    if (!names.empty()) return names;
    if (level->get_name() == "use") return ContextNames();
    if (level->get_name() == "completion") return {"bash", "zsh", "fish"};
    if (level->get_parent() != nullptr && !level->get_parent()->get_name().empty() &&
        level->get_parent()->get_parent() != nullptr && level->get_name() != "list")
      return {"last", "all"};
    return {};
  }
  absl::Status WriteManual(CLI::App* app, const std::string& command,
                           const std::string& directory) {
    std::string parent = command == "rt" ? "" : command.substr(0, command.rfind(' '));
    ManPage page{command, app->get_description(), app->help(parent), {}};
    if (!parent.empty()) page.see_also.push_back(parent);
    for (CLI::App* child : app->get_subcommands([](CLI::App*) { return true; })) {
      std::string name = command + " " + child->get_name();
      page.see_also.push_back(name);
      RT_RETURN_IF_ERROR(WriteManual(child, name, directory));
    }
    return WriteFileAtomic(directory + "/" + ManFileName(command), RenderMan(page));
  }

  // Before the parse, so that its errors come in the wanted form.
  void NoteOutput(const std::vector<std::string>& words) {
    for (size_t i = 0; i < words.size(); ++i)
      if (words[i] == "-ojson" || words[i] == "--output=json" ||
          (i + 1 < words.size() && (words[i] == "-o" || words[i] == "--output") &&
           words[i + 1] == "json"))
        invocation_.output = Output::kJson;
  }
  absl::Status Settle() {
    RT_RETURN_IF_ERROR(CheckChoice("--output", output_, {"table", "json", "quiet"}));
    RT_RETURN_IF_ERROR(CheckChoice("--color", color_, {"auto", "always", "never"}));
    if (!invocation_.stream.empty())
      RT_RETURN_IF_ERROR(CheckChoice("--stream", invocation_.stream, {"stdout", "stderr"}));
    if (!invocation_.format.empty())
      RT_RETURN_IF_ERROR(CheckChoice("--format", invocation_.format, {"csv", "json"}));
    if (output_ == "json") invocation_.output = Output::kJson;
    if (output_ == "quiet") invocation_.output = Output::kQuiet;
    bool plain = std::getenv("NO_COLOR") != nullptr || isatty(2) == 0;
    invocation_.color = color_ == "always" || (color_ == "auto" && !plain);
    SetLogLevel(invocation_.verbose ? LogLevel::kDebug : LogLevel::kWarning);
    return absl::OkStatus();
  }
  static absl::Status CheckChoice(const std::string& flag, const std::string& value,
                                  const std::vector<std::string>& choices) {
    if (std::find(choices.begin(), choices.end(), value) != choices.end()) return absl::OkStatus();
    std::string near = DidYouMean(value, choices);
    return Invalid(flag + ": '" + value + "' is not one of " + Join(choices, ", "), near);
  }
  // The flags of this level and of those above it.
  static std::vector<std::string> FlagsAt(const CLI::App* level) {
    std::vector<std::string> flags;
    for (; level != nullptr; level = level->get_parent())
      for (const CLI::Option* option : level->get_options()) {
        for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
        for (const std::string& name : option->get_snames()) flags.push_back("-" + name);
      }
    return flags;
  }
  // An unknown flag, or an unknown word where a verb belongs, gets a suggestion.
  absl::Status Explain(const CLI::ParseError& error, const std::vector<std::string>& words) {
    CLI::App* level = &app_;
    while (!level->get_subcommands().empty()) level = level->get_subcommands()[0];
    std::vector<std::string> flags = FlagsAt(level);
    for (const std::string& word : words) {
      std::string flag = word.substr(0, word.find('='));
      bool known = std::find(flags.begin(), flags.end(), flag) != flags.end();
      if (word.starts_with("--") && !known)
        return Invalid("unknown flag '" + flag + "'",
                       Or(DidYouMean(flag, flags),
                          level->get_name() != "submit" ? HelpOf(level)
                              : "arguments of the script come after --: rt submit SCRIPT -- " +
                                    flag));
    }
    std::vector<std::string> known;
    for (CLI::App* app : level->get_subcommands([](CLI::App*) { return true; }))
      known.push_back(app->get_name());
    for (size_t i = 0; !known.empty() && i < words.size(); ++i) {
      bool value = i > 0 && (words[i - 1] == "-c" || words[i - 1] == "-o" ||
                             words[i - 1] == "--cluster" || words[i - 1] == "--output" ||
                             words[i - 1] == "--color");
      if (value || words[i].starts_with("-") || words[i] == level->get_name() ||
          level->check_name(words[i]))
        continue;
      return Invalid("unknown command '" + words[i] + "'",
                     Or(DidYouMean(words[i], known), HelpOf(level)));
    }
    return Invalid(error.what(), HelpOf(level));
  }
  static std::string Or(std::string text, const std::string& otherwise) {
    return text.empty() ? otherwise : text;
  }
  static std::string HelpOf(const CLI::App* level) {
    std::string words;
    for (; level != nullptr; level = level->get_parent())
      words = level->get_name() + (words.empty() ? "" : " ") + words;
    return "see " + words + " --help";
  }

  CLI::App app_;
  Invocation invocation_;
  std::string output_ = "table", color_ = "auto";
  std::map<CLI::App*, Verb> verbs_;
};

// A descriptor that its caller closed would be taken by the next file that is opened.
void HoldStandardDescriptors() {
  for (int fd = 0; fd <= 2; ++fd)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd) _exit(kExitFailed);
}

// The exit code, unless what was printed did not arrive.
int AfterOutput(int code) {
  errno = 0;
  const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout.flush();
  if (!lost) return code;
  const std::string why = errno == 0 ? "" : std::string(": ") + std::strerror(errno);
  std::fprintf(stderr, "rt: standard output could not be written%s\n", why.c_str());
  return code == kExitOk ? kExitFailed : code;
}

int Main(const std::vector<std::string>& words) {
  HoldStandardDescriptors();
  PrepareGrpc();
  if (words.size() == 3 && words[0] == "__teardown") return RunWatcher(words[1], words[2]);
  SetLogLevel(LogLevel::kWarning);
  CommandLine line;
  if (!words.empty() && words[0] == "__complete") {
    for (const std::string& word : line.Complete({words.begin() + 1, words.end()}))
      std::puts(word.c_str());
    return kExitOk;
  }
  if (words.size() == 2 && words[0] == "__man") {
    absl::Status written = line.WriteManuals(words[1]);
    if (!written.ok()) std::fputs(RenderError(written, line.invocation()).c_str(), stderr);
    return ExitCodeOf(written);
  }
  int code = kExitOk;
  absl::StatusOr<Verb> verb = line.Parse(words, code);
  if (verb.ok() && *verb == nullptr) return AfterOutput(code);
  ExitCode outcome = verb.ok() ? (*verb)(line.invocation()) : ExitCode(verb.status());
  if (outcome.ok()) return AfterOutput(*outcome);
  std::fputs(RenderError(outcome.status(), line.invocation()).c_str(), stderr);
  return ExitCodeOf(outcome.status());
}

}  // namespace
}  // namespace rt

int main(int argc, char** argv) {
  return rt::Main(std::vector<std::string>(argv + 1, argv + argc));
}
