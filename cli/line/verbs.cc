// The verbs without a noun: of a cluster, of what runs there, and for programs and shells.
#include "cli/line/command_line.h"
#include "cli/report.h"

namespace rt {
namespace {

ExitCode RunReport(const Invocation& invocation) {
  return Report({.assignments = invocation.words,
                 .step = invocation.step,
                 .checkpoint = invocation.checkpoint,
                 .wait = invocation.wait,
                 .json = invocation.output == Output::kJson});
}

}  // namespace

const CLI::Range& CountRange() {
  static const CLI::Range range(1, 1'000'000'000);
  return range;
}

CLI::App* CommandLine::Add(CLI::App* parent, const std::string& name, const std::string& what,
                           Verb verb, const std::string& examples) {
  CLI::App* app = parent->add_subcommand(name, what);
  app->fallthrough();
  app->footer("Examples:\n" + examples);
  if (verb != nullptr) verbs_[app] = verb;
  return app;
}

void CommandLine::Words(CLI::App* app, const std::string& name, const std::string& what) {
  app->add_option(name, invocation_.words, what);
}

void CommandLine::AddNoDownload(CLI::App* app) {
  app->add_flag("--no-download", invocation_.no_download,
                "Leave checkpoints and output on the cluster");
}

void CommandLine::AddCluster() {
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
      "  rt status\n  rt status --all\n  rt status -o json")
      ->add_flag("--all", invocation_.all, "All experiments and jobs, not only recent ones");
}

void CommandLine::AddSubmit() {
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

void CommandLine::AddLooking() {
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
}

void CommandLine::AddTools() {
  CLI::App* report = Add(&app_, "report", "Metrics from a shell trial", RunReport,
                         "  rt report loss=0.31 accuracy=0.9\n"
                         "  rt report loss=0.31 --step 4 --checkpoint model/\n"
                         "  [ \"$(rt report loss=0.31 --wait)\" = stop ] && exit");
  Words(report, "NAME=VALUE", "Numbers, true, false, or texts");
  report->add_option("--step", invocation_.step, "training_iteration; counted when not given");
  report->add_option("--checkpoint", invocation_.checkpoint,
                     "A directory or file; committed before the command returns");
  report->add_flag("--wait", invocation_.wait, "Print what the head decides: continue or stop");
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

}  // namespace rt
