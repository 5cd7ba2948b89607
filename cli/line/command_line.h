// The command line: its verbs, nouns and flags (CLI11), what a line of them means, and what the
// shell's completion and the manual pages say about them. Used by main.cc, on one thread.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/commands/commands.h"
#include "cli/invocation.h"

namespace rt {

using Verb = ExitCode (*)(const Invocation&);

class CommandLine {
 public:
  CommandLine();

  // The verb to run, or null and the exit code when there is none to run.
  absl::StatusOr<Verb> Parse(std::vector<std::string> words, int& code);
  // Candidates for the last word of a command line that is being typed, one a line; none where a
  // file belongs.
  std::vector<std::string> Complete(const std::vector<std::string>& words);
  // Writes a manual page for rt and for each of its commands.
  absl::Status WriteManuals(const std::string& directory);

  const Invocation& invocation() const { return invocation_; }

 private:
  void AddCluster();  // verbs.cc
  void AddSubmit();
  void AddLooking();
  void AddTools();
  void AddExperiment();  // nouns.cc
  void AddTrial();
  void AddJob();
  void AddExecutor();
  void AddNode();
  void AddContextAndToken();
  void AddExperimentResults(CLI::App* experiment);
  void AddCheckpoint(CLI::App* trial);

  CLI::App* Add(CLI::App* parent, const std::string& name, const std::string& what, Verb verb,
                const std::string& examples);
  void Words(CLI::App* app, const std::string& name, const std::string& what);
  CLI::App* AddNoun(const std::string& name, const std::string& alias, const std::string& what);
  // `states`: an example for --state.
  CLI::App* AddList(CLI::App* noun, const std::string& states, Verb verb);
  // A verb of selected items; `examples` where those of every such verb would not work.
  CLI::App* AddOne(CLI::App* noun, const std::string& name, const std::string& what, Verb verb,
                   std::string examples = "");
  void AddLogFlags(CLI::App* app, bool of_attempts);
  void AddNoDownload(CLI::App* app);

  void NoteOutput(const std::vector<std::string>& words);
  absl::Status Settle();
  absl::Status CheckCommand(const std::vector<std::string>& words);
  absl::Status Explain(const CLI::ParseError& error, const std::vector<std::string>& words);

  CLI::App app_;
  Invocation invocation_;
  std::string output_ = "table", color_ = "auto";
  std::map<CLI::App*, Verb> verbs_;
};

// What several of its files need of CLI11's tree.
// The flags of this level and of those above it.
std::vector<std::string> FlagsAt(const CLI::App* level);
// "see rt exp list --help".
std::string HelpOf(const CLI::App* level);
const CLI::Validator& CountRange();  // Of a count that a user types.

}  // namespace rt
