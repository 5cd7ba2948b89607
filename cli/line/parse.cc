// Parses a command line, and words the errors of one that cannot be parsed.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "cli/line/command_line.h"
#include "cli/line/not_yet.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

absl::Status CheckChoice(const std::string& flag, const std::string& value,
                         const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return absl::OkStatus();
  std::string near = DidYouMean(value, choices);
  return Invalid(flag + ": '" + value + "' is not one of " + Join(choices, ", "), near);
}

// The words that a command does not take.
std::vector<std::string> ExtraOf(const CLI::App& app) {
  std::vector<std::string> extra;
  for (const std::string& word : app.remaining(true))
    if (!word.starts_with("-")) extra.push_back(word);
  return extra;
}

// `rt exp list last`: a list takes no selector.
absl::Status NoSelector(const CLI::App* list, const std::string& word) {
  const std::string noun = list->get_parent()->get_name();
  const std::string what = "rt " + noun + " list takes no selector, and '" + word + "' is one";
  if (noun == "trial") return Invalid(what, "rt trial list --exp " + word);
  if (noun == "context" || noun == "token") return Invalid(what, HelpOf(list));
  return Invalid(what, "rt " + noun + " show " + word);
}

// A flag that the verb needs, or else a subcommand.
absl::Status WhatIsMissing(const CLI::App& level) {
  for (const CLI::Option* option : level.get_options())
    if (option->get_required() && option->count() == 0)
      return Invalid("missing " + option->get_name(), HelpOf(&level));
  return Invalid("missing subcommand", HelpOf(&level));
}

std::string Or(std::string text, const std::string& otherwise) {
  return text.empty() ? otherwise : text;
}

}  // namespace

CommandLine::CommandLine()
    : app_("Runs deep-learning experiments on machines that can disappear at any time.", "rt") {
  app_.require_subcommand(1);
  app_.fallthrough();
  app_.set_version_flag("--version", "rt " RT_VERSION);
  app_.add_option("-c,--cluster", invocation_.cluster,
                  "Name of the cluster (default: RT_CLUSTER, else the current one)");
  app_.add_option("-o,--output", output_, "table, json or quiet (default: table)");
  app_.add_option("--color", color_, "auto, always or never (default: auto)");
  app_.add_flag("-v,--verbose", invocation_.verbose, "Verbose output");
  app_.footer("Examples:\n  rt up cluster.yaml\n  rt submit train.py -- --lr 0.1\n"
              "  rt submit search.yaml\n  rt watch\n  rt doctor\n  rt down");
  AddCluster();
  AddSubmit();
  AddExperiment();
  AddTrial();
  AddJob();
  AddExecutor();
  AddNode();
  AddLooking();
  AddContextAndToken();
  AddTools();
}

absl::StatusOr<Verb> CommandLine::Parse(std::vector<std::string> words, int& code) {
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
    // A command that does not exist is an error, also with --help.
    RT_RETURN_IF_ERROR(CheckCommand(words));
    code = app_.exit(help);
    return Verb{nullptr};
  } catch (const CLI::ParseError& error) {
    return Explain(error, words);
  }
  RT_RETURN_IF_ERROR(Settle());
  CLI::App* chosen = &app_;
  while (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands()[0];
  auto found = verbs_.find(chosen);
  if (found == verbs_.end()) return Invalid("missing subcommand", HelpOf(chosen));
  if (!invocation_.arguments.empty() && chosen->get_name() != "submit")
    return Invalid("only rt submit takes arguments after --");
  // An empty word is a shell variable that is not set. It must not mean the newest item.
  const auto& given = invocation_.words;
  if (chosen->get_name() != "report" && std::find(given.begin(), given.end(), "") != given.end())
    return Invalid("empty argument", HelpOf(chosen));
  return found->second;
}

// Before the parse, so that its errors come in the wanted form.
void CommandLine::NoteOutput(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i] == "-ojson" || words[i] == "--output=json" ||
        (i + 1 < words.size() && (words[i] == "-o" || words[i] == "--output") &&
         words[i + 1] == "json"))
      invocation_.output = Output::kJson;
}

absl::Status CommandLine::Settle() {
  RT_RETURN_IF_ERROR(CheckChoice("--output", output_, {"table", "json", "quiet"}));
  RT_RETURN_IF_ERROR(CheckChoice("--color", color_, {"auto", "always", "never"}));
  if (!invocation_.stream.empty())
    RT_RETURN_IF_ERROR(CheckChoice("--stream", invocation_.stream, {"stdout", "stderr"}));
  if (!invocation_.format.empty())
    RT_RETURN_IF_ERROR(CheckChoice("--format", invocation_.format, {"csv", "json"}));
  if (output_ == "json") invocation_.output = Output::kJson;
  if (output_ == "quiet") invocation_.output = Output::kQuiet;
  const auto colors = [&](int fd) {
    return color_ == "always" ||
           (color_ == "auto" && std::getenv("NO_COLOR") == nullptr && isatty(fd) != 0);
  };
  invocation_.color = colors(2);
  invocation_.color_out = colors(1);
  SetLogLevel(invocation_.verbose ? LogLevel::kDebug : LogLevel::kWarning);
  return absl::OkStatus();
}

std::vector<std::string> FlagsAt(const CLI::App* level) {
  std::vector<std::string> flags;
  for (; level != nullptr; level = level->get_parent())
    for (const CLI::Option* option : level->get_options()) {
      for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
      for (const std::string& name : option->get_snames()) flags.push_back("-" + name);
    }
  return flags;
}

std::string HelpOf(const CLI::App* level) {
  std::string words;
  for (; level != nullptr; level = level->get_parent())
    words = level->get_name() + (words.empty() ? "" : " ") + words;
  return "see " + words + " --help";
}

// An unknown flag, or an unknown word where a verb belongs, gets a suggestion.
absl::Status CommandLine::Explain(const CLI::ParseError& error,
                                  const std::vector<std::string>& words) {
  CLI::App* level = &app_;
  while (!level->get_subcommands().empty()) level = level->get_subcommands()[0];
  std::vector<std::string> flags = FlagsAt(level);
  for (const std::string& word : words) {
    std::string flag = word.substr(0, word.find('='));
    bool known = std::find(flags.begin(), flags.end(), flag) != flags.end();
    if (word.starts_with("--") && !known) RT_RETURN_IF_ERROR(NotYetAvailable(flag));
    if (word.starts_with("--") && !known)
      return Invalid("unknown flag '" + flag + "'",
                     Or(DidYouMean(flag, flags),
                        level->get_name() != "submit" ? HelpOf(level)
                            : "arguments of the script come after --: rt submit SCRIPT -- " +
                                  flag));
  }
  RT_RETURN_IF_ERROR(CheckCommand(words));
  const std::vector<std::string> extra = ExtraOf(app_);
  if (level->get_name() == "list" && !extra.empty()) return NoSelector(level, extra.front());
  if (error.get_name() == "RequiredError") return WhatIsMissing(*level);
  if (!extra.empty()) return Invalid("unexpected argument '" + extra.front() + "'", HelpOf(level));
  std::string text = error.what();
  // CLI11 says "Could not convert: --cpus = x".
  const std::string unread = "Could not convert: ";
  if (const size_t equals = text.find(" = "); text.starts_with(unread) && equals != text.npos)
    text = text.substr(unread.size(), equals - unread.size()) + " must be a whole number, not '" +
           text.substr(equals + 3) + "'";
  if (const size_t colon = text.find(": must be "); colon != std::string::npos)
    text.erase(colon, 1);
  return Invalid(text, HelpOf(level));
}

// An unknown word where a command belongs.
absl::Status CommandLine::CheckCommand(const std::vector<std::string>& words) {
  CLI::App* level = &app_;
  while (!level->get_subcommands().empty()) level = level->get_subcommands()[0];
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
    RT_RETURN_IF_ERROR(NotYetAvailable(words[i]));
    return Invalid("unknown command '" + words[i] + "'",
                   Or(DidYouMean(words[i], known), HelpOf(level)));
  }
  return absl::OkStatus();
}

}  // namespace rt
