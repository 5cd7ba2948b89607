// The nouns and their verbs.
#include "cli/line/command_line.h"

namespace rt {

CLI::App* CommandLine::AddNoun(const std::string& name, const std::string& alias,
                               const std::string& what) {
  std::string show = alias.empty() ? "" : "\n  rt " + name + " show last";
  CLI::App* noun = Add(&app_, name, what, nullptr, "  rt " + name + " list" + show);
  if (!alias.empty()) noun->alias(alias);
  noun->require_subcommand(1);
  return noun;
}

CLI::App* CommandLine::AddList(CLI::App* noun, const std::string& states, Verb verb) {
  const std::string what = noun->get_name() == "exp" ? "experiment" : noun->get_name();
  CLI::App* list = Add(noun, "list", "List the " + what + "s", verb,
                       "  rt " + noun->get_name() + " list -o json");
  list->add_option("--limit", invocation_.limit, "Maximum number of items")->check(CountRange());
  list->add_option("--after", invocation_.after,
                   "List only items after this id, such as the 'next' of a list");
  list->add_option("--state", invocation_.state_filter,
                   "List only items in these states, such as " + states);
  return list;
}

CLI::App* CommandLine::AddOne(CLI::App* noun, const std::string& name, const std::string& what,
                              Verb verb, std::string examples) {
  const std::string call = "  rt " + noun->get_name() + " " + name + " ";
  const bool is_trial = noun->get_name() == "trial", is_node = noun->get_name() == "node";
  if (examples.empty())
    examples = is_trial  ? call + "3/1\n" + call + "3/0-5"
               : is_node ? call + "worker-1\n" + call + "1,3-5"
                         : call + "last\n" + call + "3,5-8";
  CLI::App* app = Add(noun, name, what, verb, examples);
  Words(app, "SELECTOR",
        is_trial ? "Ids such as 3/1 and 3/0-5, names, 3/last or 3/all"
                 : "Ids such as 3,5-8, names, last or all");
  if (name == "stop" || name == "pause")
    app->add_option("--reason", invocation_.reason, "Reason that rt shows");
  return app;
}

void CommandLine::AddLogFlags(CLI::App* app, bool of_attempts) {
  app->add_flag("-f,--follow", invocation_.follow, "Keep printing new output until it ends");
  app->add_option("--tail", invocation_.tail, "Start N lines from the end")->check(CountRange());
  if (!of_attempts) return;
  app->add_option("--attempt", invocation_.attempt, "Number of the attempt (default: the newest)")
      ->check(CountRange());
  app->add_flag("--previous", invocation_.previous, "Print the attempt before the newest one");
  app->add_option("--rank", invocation_.rank, "Rank of a trial with several ranks (default: 0)");
  app->add_option("--stream", invocation_.stream, "stdout or stderr (default: both)");
}

void CommandLine::AddExperimentResults(CLI::App* experiment) {
  CLI::App* best = Add(experiment, "best", "Show the best trials", RunExperimentBest,
                       "  rt exp best\n  rt exp best 3 --limit 5 -o json");
  Words(best, "SELECTOR", "An id, a name, or last");
  best->add_option("--limit", invocation_.limit, "Maximum number of trials (default: 1)")
      ->check(CountRange());
  Words(Add(experiment, "download", "Copy results, output and checkpoints into a directory",
            RunExperimentDownload, "  rt exp download 3\n  rt exp download last results/"),
        "EXP", "An id, a name, or last; then the directory");
  CLI::App* dump =
      Add(experiment, "export", "Print all trials for other programs", RunExperimentExport,
          "  rt exp export last > trials.csv\n"
          "  rt exp export 3 --rows --format json > rows.json");
  Words(dump, "SELECTOR", "An id, a name, or last");
  dump->add_option("--format", invocation_.format, "csv or json (default: csv)");
  dump->add_flag("--rows", invocation_.rows, "Print every report instead of a line per trial");
}

void CommandLine::AddCheckpoint(CLI::App* trial) {
  CLI::App* checkpoint = Add(trial, "checkpoint", "Fetch the newest checkpoint", RunTrialCheckpoint,
                             "  rt trial checkpoint 3/1\n"
                             "  rt trial checkpoint 3/1 model/ --best");
  Words(checkpoint, "TRIAL", "An id or name; then the directory");
  checkpoint
      ->add_option("--id", invocation_.checkpoint_id,
                   "Fetch this checkpoint; rt trial show lists them")
      ->check(CountRange());
  checkpoint->add_flag("--best", invocation_.best, "Fetch the best by the experiment's metric");
}

void CommandLine::AddExperiment() {
  CLI::App* experiment = AddNoun("exp", "e", "Experiments");
  AddList(experiment, "RUNNING,FAILED", RunExperimentList);
  AddOne(experiment, "show", "Show details", RunExperimentShow);
  AddOne(experiment, "stop", "Stop an experiment and its trials", RunExperimentStop);
  AddOne(experiment, "pause", "Let the trials save and end, to resume later", RunExperimentPause);
  CLI::App* resume =
      AddOne(experiment, "resume", "Resume a paused or stopped experiment", RunExperimentResume);
  resume->add_flag("--failed", invocation_.failed, "Resume failed trials as well");
  resume->add_flag("--restart-failed", invocation_.from_scratch,
                   "Start failed trials from scratch");
  CLI::App* extend =
      AddOne(experiment, "extend", "Add trials or time, even to a finished experiment",
             RunExperimentExtend, "  rt exp extend last --samples 8\n  rt exp extend 3 --time 30m");
  extend->add_option("--samples", invocation_.samples, "Number of additional samples")
      ->check(CountRange());
  extend->add_option("--time", invocation_.time, "Additional time, such as 30m");
  AddExperimentResults(experiment);
}

void CommandLine::AddTrial() {
  CLI::App* trial = AddNoun("trial", "t", "Trials; an id is EXPERIMENT/NUMBER");
  CLI::App* list = AddList(trial, "RUNNING,FAILED", RunTrialList);
  list->add_option("--exp", invocation_.experiment,
                   "Experiment whose trials are listed, or all (default: the last one)");
  list->add_option("--sort", invocation_.sort,
                   "Column, parameter or metric to sort by; -NAME: the greatest first");
  AddOne(trial, "show", "Show details", RunTrialShow);
  AddOne(trial, "stop", "Stop a trial", RunTrialStop);
  AddOne(trial, "pause", "Let a trial save and end, to resume later", RunTrialPause);
  AddOne(trial, "resume", "Resume a paused trial", RunTrialResume);
  AddOne(trial, "retry", "Retry a failed or stopped trial", RunTrialRetry)
      ->add_flag("--from-scratch", invocation_.from_scratch, "Retry without the checkpoints");
  AddOne(trial, "resize", "Continue a running trial with another number of ranks", RunTrialResize,
         "  rt trial resize 3/1 --ranks 4")
      ->add_option("--ranks", invocation_.ranks, "Number of ranks")
      ->required()
      ->check(CountRange());
  AddOne(trial, "why", "Explain why a trial waits, runs or ended", RunTrialWhy);
  AddLogFlags(AddOne(trial, "logs", "Print the output of a trial", RunTrialLogs,
                     "  rt trial logs 3/1 -f\n  rt trial logs 3/1 --previous"),
              true);
  AddCheckpoint(trial);
}

void CommandLine::AddJob() {
  CLI::App* job = AddNoun("job", "j", "Jobs");
  AddList(job, "RUNNING,FAILED", RunJobList);
  AddOne(job, "show", "Show details", RunJobShow);
  AddOne(job, "stop", "Stop a job", RunJobStop);
  AddLogFlags(AddOne(job, "logs", "Print the output of a job", RunJobLogs,
                     "  rt job logs last -f\n  rt job logs 3 --attempt 1"),
              true);
}

void CommandLine::AddExecutor() {
  CLI::App* executor = AddNoun("executor", "x", "Executors: processes that run tasks and actors");
  AddList(executor, "RUNNING,ENDED", RunExecutorList);
  AddOne(executor, "show", "Show details, and why one waits", RunExecutorShow);
  AddOne(executor, "stop", "Stop an executor", RunExecutorStop);
  AddLogFlags(AddOne(executor, "logs", "Print the output of an executor", RunExecutorLogs,
                     "  rt executor logs last -f\n  rt executor logs 7 --tail 100"),
              true);
  CLI::App* actor = AddNoun("actor", "", "Detached actors, which outlive their drivers");
  Add(actor, "list", "List the detached actors", RunActorList,
      "  rt actor list\n"
      "  rt actor list -o json");
}

void CommandLine::AddNode() {
  CLI::App* node = AddNoun("node", "n", "Nodes");
  AddList(node, "READY,DRAINING", RunNodeList);
  AddOne(node, "show", "Show details", RunNodeShow);
  AddLogFlags(AddOne(node, "logs", "Print the log of a node's daemon", RunNodeLogs,
                     "  rt node logs worker-1 -f\n  rt node logs worker-1 --tail 100"),
              false);
  AddOne(node, "why", "Explain why a node takes work or not", RunNodeWhy);
  CLI::App* drain =
      AddOne(node, "drain", "Move the trials elsewhere and accept no new ones", RunNodeDrain);
  drain->add_option("--deadline", invocation_.deadline,
                    "Stop remaining trials after this time, such as 2m (default: never)");
  drain->add_option("--reason", invocation_.reason, "Reason that rt shows");
  CLI::App* undrain = AddOne(node, "undrain", "Accept new trials again", RunNodeUndrain);
  undrain->add_option("--gpu", invocation_.gpu,
                      "End the quarantine of one gpu, by its index or uuid, and nothing else");
  undrain
      ->add_flag("--links", invocation_.links,
                 "Let gangs use the node's slow links again, and nothing else")
      ->excludes("--gpu");
  AddOne(node, "forget", "Remove a LOST node that will not come back", RunNodeForget)
      ->add_option("--reason", invocation_.reason, "Reason that rt shows");
}

void CommandLine::AddContextAndToken() {
  CLI::App* context = AddNoun("context", "", "Contexts: the clusters that this user knows");
  Add(context, "list", "List all contexts", RunContextList, "  rt context list");
  Words(
      Add(context, "use", "Make a context the current one", RunContextUse, "  rt context use lab"),
      "NAME", "Name of the context");
  Words(Add(context, "remove", "Remove a context and its certificate", RunContextRemove,
            "  rt context remove lab"),
        "NAME", "Name of the context");
  CLI::App* add = Add(context, "add", "Add a context", RunContextAdd,
                      "  rt context add lab --from /var/lib/rt-head/admin\n"
                      "  rt context add lab --head lab.lan:7070 --token-file token");
  Words(add, "NAME", "Name of the context");
  add->add_option("--from", invocation_.from, "Admin directory of the head");
  add->add_option("--head", invocation_.head, "ADDR:PORT of the head, with --token-file");
  add->add_option("--token-file", invocation_.token_file,
                  "File with the text of a user's token; - is standard input");
  CLI::App* token = AddNoun("token", "", "Join tokens (admin only)");
  CLI::App* create = Add(token, "create", "Print a single-use token", RunTokenCreate,
                         "  rt token create --role worker --ttl 1h\n"
                         "  rt token create --role user --name alice");
  create->add_option("--role", invocation_.role, "worker, user, viewer or admin (default: worker)");
  create->add_option("--name", invocation_.name,
                     "Name of the user or node that joins (default: a user's is user-ID, "
                     "a node chooses its own)");
  create->add_option("--ttl", invocation_.ttl, "Time until the token expires, such as 90m");
  Add(token, "list", "List the tokens that can still be used", RunTokenList, "  rt token list");
  Words(Add(token, "revoke", "Revoke a token", RunTokenRevoke, "  rt token revoke ID"), "ID",
        "Id of the token");
}

}  // namespace rt
