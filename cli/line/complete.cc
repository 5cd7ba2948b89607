// What the shell's completion offers, and the manual pages.
#include "cli/client/home.h"
#include "cli/line/command_line.h"
#include "cli/render/man.h"
#include "common/base/status.h"
#include "common/run/files.h"

namespace rt {
namespace {

CLI::App* ChildOf(CLI::App* level, const std::string& word) {
  for (CLI::App* child : level->get_subcommands([](CLI::App*) { return true; }))
    if (child->check_name(word)) return child;
  return nullptr;
}

// Whether `word` is a flag of this level, or of one above, that is followed by its value.
bool TakesValue(const CLI::App* level, const std::string& word) {
  if (!word.starts_with("-") || word.find('=') != std::string::npos) return false;
  for (; level != nullptr; level = level->get_parent())
    if (const CLI::Option* option = level->get_option_no_throw(word))
      return option->get_items_expected_max() > 0;
  return false;
}

std::vector<std::string> ContextNames() {
  absl::StatusOr<Home> home = Home::Open();
  return home.ok() ? home->ClusterNames() : std::vector<std::string>();
}

std::vector<std::string> CandidatesAt(CLI::App* level, const std::string& before,
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
  if (level->get_name() == "use" || level->get_name() == "remove") return ContextNames();
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

}  // namespace

std::vector<std::string> CommandLine::Complete(const std::vector<std::string>& words) {
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

absl::Status CommandLine::WriteManuals(const std::string& directory) {
  return WriteManual(&app_, "rt", directory);
}

}  // namespace rt
