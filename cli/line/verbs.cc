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

const CLI::Validator& CountRange() {
  static const CLI::Validator range(
      [](std::string& text) -> std::string {
        const CLI::Range counts(1, 1'000'000'000);
        if (counts(text).empty()) return "";
        return "must be a whole number from 1 to 1000000000, not '" + text + "'";
      },
      "", "count");
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
                "Do not copy checkpoints and output from the cluster");
}

void CommandLine::AddCluster() {
  CLI::App* up =
      Add(&app_, "up", "Start, update or repair a cluster", RunUp, "  rt up cluster.yaml");
  Words(up, "CLUSTER.yaml", "File that describes the cluster");
  up->add_option("--keep", invocation_.keep,
                 "End a cluster in a cloud when it has had no work for this time (default: never)");
  CLI::App* down = Add(&app_, "down", "Shut down a cluster and archive its history", RunDown,
                       "  rt down cluster.yaml\n  rt down -c demo\n"
                       "  rt down demo --purge");
  Words(down, "CLUSTER.yaml", "File or name of the cluster");
  down->add_flag("--purge", invocation_.purge, "Delete the history instead of archiving it");
  AddNoDownload(down);
  Add(&app_, "status", "Show the cluster, its nodes and work, and why work waits", RunStatus,
      "  rt status\n  rt status --all\n  rt status -o json")
      ->add_flag("--all", invocation_.all, "Show all experiments and jobs, not only recent ones");
}

void CommandLine::AddSubmit() {
  CLI::App* submit =
      Add(&app_, "submit", "Run a script or an experiment on a cluster", RunSubmit,
          "  rt submit train.py -- --lr 0.1\n  rt submit search.yaml\n"
          "  rt submit cluster.yaml --start --stop train.py\n  rt submit --detach ./run.sh\n"
          "  rt submit --nproc-per-node 4 --nnodes 2 --max-restarts 3 ddp.py");
  Words(submit, "SCRIPT", "[CLUSTER.yaml] SCRIPT");
  submit->add_flag("--start", invocation_.start, "Start the cluster if it is not up");
  submit->add_flag("--stop", invocation_.stop, "Shut down afterwards what --start started");
  submit->add_option("--keep", invocation_.keep,
                     "With --stop in a cloud: keep results this long if this client vanishes "
                     "(default: 24h)");
  submit->add_option("--if-client-vanishes", invocation_.if_client_vanishes,
                     "With --stop in a cloud: finish (default) or stop the work if this client "
                     "vanishes");
  submit->add_flag("--detach", invocation_.detach, "Print the id and return");
  AddNoDownload(submit);
  submit->add_option("--name", invocation_.name, "Name of the job or experiment");
  submit->add_option("--args", invocation_.args,
                     "Arguments of the script as one text, split as a shell does");
  submit->add_option("--nproc-per-node", invocation_.nproc_per_node,
                     "Run the script as this many ranks on each node, as torchrun does");
  submit->add_option("--nnodes", invocation_.nnodes, "Number of nodes with ranks (default: 1)");
  submit->add_option("--elastic", invocation_.elastic,
                     "Run the script as MIN:MAX ranks, and let the head resize it");
  submit->add_option("--max-restarts", invocation_.max_restarts,
                     "Restart all ranks after a failure this often (default: 0)");
  submit->add_option("--resources", invocation_.resources,
                     "What the script or each rank needs, such as cpu=4,gpu=1 (default: cpu=1 of "
                     "a rank)");
  submit->add_flag("--preflight", invocation_.preflight,
                   "Test the gpus before the script starts there, and replace those that fail");
}

void CommandLine::AddLooking() {
  CLI::App* logs =
      Add(&app_, "logs", "Print the output of a trial or job, or the log of a node", RunLogs,
          "  rt logs -f 1/4\n  rt logs j3\n  rt logs 1/4 --previous\n"
          "  rt logs worker-1");
  Words(logs, "TRIAL|JOB|NODE", "Such as 1/4, j3 or worker-1");
  AddLogFlags(logs, true);
  Words(Add(&app_, "watch", "Watch an experiment or the cluster on a live screen", RunWatch,
            "  rt watch\n  rt watch last"),
        "EXP", "Id or name of an experiment (default: the whole cluster)");
  Add(&app_, "doctor", "Check this machine and the cluster", RunDoctor,
      "  rt doctor\n  rt doctor -c lab -o json\n  rt doctor --gpu")
      ->add_flag("--gpu", invocation_.probe_gpus,
                 "Test the gpus of this machine as well: memory, arithmetic, links (seconds)");
  CLI::App* plan = Add(&app_, "plan", "Show what a YAML file would start", RunPlan,
                       "  rt plan search.yaml\n  rt plan cluster.yaml -o json");
  Words(plan, "FILE", "File of an experiment or a cluster, or a trace");
  CLI::Option* elastic =
      plan->add_flag("--elastic", invocation_.trace,
                     "Replay FILE, a trace of elastic jobs, on a cluster that does not exist");
  plan->add_option("--nodes", invocation_.nodes, "Number of nodes of that cluster (default: 16)")
      ->needs(elastic);
  plan->add_option("--gpus-per-node", invocation_.slots,
                   "Number of gpus of each of its nodes (default: 4)")
      ->needs(elastic);
}

void CommandLine::AddTools() {
  CLI::App* report = Add(&app_, "report", "Report metrics from a shell trial", RunReport,
                         "  rt report loss=0.31 accuracy=0.9\n"
                         "  rt report loss=0.31 --step 4 --checkpoint model/\n"
                         "  [ \"$(rt report loss=0.31 --wait)\" = stop ] && exit");
  Words(report, "NAME=VALUE", "Numbers, true, false, or texts");
  report->add_option("--step", invocation_.step, "Value of training_iteration (default: counted)");
  report->add_option("--checkpoint", invocation_.checkpoint,
                     "Directory or file to commit before the command returns");
  report->add_flag("--wait", invocation_.wait, "Print the decision of the head: continue or stop");
  CLI::App* bridge = Add(&app_, "bridge", "Serve a driver: JSON lines on standard input", RunBridge,
                         "  rt bridge\n  rt bridge --local --cpus 4");
  bridge->add_flag("--local", invocation_.local,
                   "Start a private cluster that ends with the driver");
  bridge->add_flag("--algorithms", invocation_.algorithms,
                   "Print the search algorithms and schedulers with their options, and end");
  bridge->add_flag("--optimize", invocation_.optimize,
                   "Serve a search algorithm alone, without a cluster: ask and tell");
  bridge->add_option("--cpus", invocation_.cpus, "Cpus of the private cluster's worker");
  bridge->add_option("--gpus", invocation_.gpus, "Gpus of the private cluster's worker");
  bridge->add_option("--resources", invocation_.resources,
                     "More of that worker, like license=2,memory=8GiB");
  bridge->add_option("--state", invocation_.state, "State of a private cluster to continue from");
  Words(Add(&app_, "completion", "Print a completion script for a shell", RunCompletion,
            "  rt completion bash > /etc/bash_completion.d/rt"),
        "SHELL", "bash, zsh or fish");
}

}  // namespace rt
