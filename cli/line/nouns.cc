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

CLI::App* CommandLine::AddList(CLI::App* noun, Verb verb) {
  CLI::App* list = Add(noun, "list", "One line each", verb,
                       "  rt " + noun->get_name() + " list -o json");
  list->add_option("--limit", invocation_.limit, "At most so many")->check(CountRange());
  list->add_option("--after", invocation_.after, "Those after this id, such as a list's 'next'");
  list->add_option("--state", invocation_.state_filter, "Those in these states: RUNNING,FAILED");
  return list;
}

CLI::App* CommandLine::AddOne(CLI::App* noun, const std::string& name, const std::string& what,
                              Verb verb) {
  CLI::App* app = Add(noun, name, what, verb,
                      "  rt " + noun->get_name() + " " + name + " last\n  rt " +
                          noun->get_name() + " " + name + " 3,5-8");
  Words(app, "SELECTOR", "Ids such as 3,5-8, last, all, or a name");
  if (name == "stop" || name == "pause") app->add_option("--reason", invocation_.reason, "Why");
  if (name == "logs") AddLogFlags(app);
  return app;
}

void CommandLine::AddLogFlags(CLI::App* app) {
  app->add_flag("-f,--follow", invocation_.follow, "Go on until it ends");
  app->add_option("--tail", invocation_.tail, "From so many lines before the end")
      ->check(CountRange());
  app->add_option("--rank", invocation_.rank, "Of a trial with several ranks; 0 when not given");
  app->add_option("--stream", invocation_.stream, "stdout or stderr; both when not given");
}

void CommandLine::AddExperimentResults(CLI::App* experiment) {
  CLI::App* best = Add(experiment, "best", "Its best trials", RunExperimentBest,
                       "  rt exp best\n  rt exp best 3 --limit 5 -o json");
  Words(best, "SELECTOR", "An id, a name, or last");
  best->add_option("--limit", invocation_.limit, "So many of them; 1 when not given")
      ->check(CountRange());
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

void CommandLine::AddCheckpoint(CLI::App* trial) {
  CLI::App* checkpoint = Add(trial, "checkpoint", "Fetch its newest checkpoint",
                             RunTrialCheckpoint, "  rt trial checkpoint 3/1\n"
                             "  rt trial checkpoint 3/1 model/ --best");
  Words(checkpoint, "TRIAL", "Its id; then the directory");
  checkpoint->add_option("--id", invocation_.checkpoint_id, "This one, as trial show lists them")
      ->check(CountRange());
  checkpoint->add_flag("--best", invocation_.best, "The best by the experiment's metric");
}

void CommandLine::AddExperiment() {
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
      ->check(CountRange());
  extend->add_option("--time", invocation_.time, "So much more time, such as 30m");
  AddExperimentResults(experiment);
}

void CommandLine::AddTrial() {
  CLI::App* trial = AddNoun("trial", "t", "Trials; an id is EXPERIMENT/NUMBER");
  CLI::App* list = AddList(trial, RunTrialList);
  list->add_option("--exp", invocation_.experiment,
                   "Those of this experiment, or of all; of the last one when not given");
  list->add_option("--sort", invocation_.sort,
                   "By a column, parameter or metric; -NAME for the greatest first");
  AddOne(trial, "show", "All that is known of it", RunTrialShow);
  AddOne(trial, "stop", "Stop it", RunTrialStop);
  AddOne(trial, "pause", "Let it save and end, to go on later", RunTrialPause);
  AddOne(trial, "resume", "Go on with one that is paused", RunTrialResume);
  AddOne(trial, "retry", "Run one that failed or was stopped again", RunTrialRetry)
      ->add_flag("--from-scratch", invocation_.from_scratch, "Without its checkpoints");
  AddOne(trial, "why", "Why it waits, runs or ended", RunTrialWhy);
  AddOne(trial, "logs", "Its output", RunTrialLogs);
  AddCheckpoint(trial);
}

void CommandLine::AddJob() {
  CLI::App* job = AddNoun("job", "j", "Jobs");
  AddList(job, RunJobList);
  AddOne(job, "show", "All that is known of it", RunJobShow);
  AddOne(job, "stop", "Stop it", RunJobStop);
  AddOne(job, "logs", "Its output", RunJobLogs);
}

void CommandLine::AddNode() {
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
  AddOne(node, "forget", "Remove a LOST node that will not come back", RunNodeForget)
      ->add_option("--reason", invocation_.reason, "Why");
}

void CommandLine::AddContextAndToken() {
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
                         "  rt token create --role worker --ttl 1h\n"
                         "  rt token create --role user --name alice");
  create->add_option("--role", invocation_.role, "worker, user, viewer or admin");
  create->add_option("--name", invocation_.name,
                     "Name of the user or node that joins (default: a user's is user-ID, "
                     "a node chooses its own)");
  create->add_option("--ttl", invocation_.ttl, "How long it can be used, such as 90m");
  Add(token, "list", "Those that can still be used", RunTokenList, "  rt token list");
  Words(Add(token, "revoke", "Make a token useless", RunTokenRevoke, "  rt token revoke ID"),
        "ID", "Its id");
}

}  // namespace rt
