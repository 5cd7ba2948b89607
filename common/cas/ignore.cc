#include "common/cas/ignore.h"

#include "common/base/strings.h"

namespace rt {
namespace {

// Matches one "[…]" at the start of `glob` against `c`. `length` is that of the class, 0 when it is
// not closed (then '[' is an ordinary character).
bool MatchesClass(std::string_view glob, char c, size_t& length) {
  size_t at = 1;
  bool negated = at < glob.size() && (glob[at] == '!' || glob[at] == '^');
  if (negated) ++at;
  bool matched = false;
  for (size_t first = at; at < glob.size(); ++at) {
    if (glob[at] == ']' && at > first) {
      length = at + 1;
      return matched != negated && c != '/';
    }
    if (glob[at] == '\\' && at + 1 < glob.size()) ++at;
    char low = glob[at], high = low;
    if (at + 2 < glob.size() && glob[at + 1] == '-' && glob[at + 2] != ']') {
      high = glob[at + 2];
      at += 2;
    }
    if (low <= c && c <= high) matched = true;
  }
  length = 0;
  return false;
}

// Matches one unit of the glob (a character, an escape, '?', a class) against one character.
bool MatchesOne(std::string_view glob, char c, size_t& length) {
  length = 1;
  if (glob[0] == '?') return c != '/';
  if (glob[0] == '[') {
    bool matched = MatchesClass(glob, c, length);
    if (length > 0) return matched;
    length = 1;
  }
  if (glob[0] == '\\' && glob.size() > 1) {
    length = 2;
    return glob[1] == c;
  }
  return glob[0] == c;
}

}  // namespace

bool MatchesGlob(std::string_view glob, std::string_view text) {
  // Two places to come back to, one per kind of star: the matching stays linear in practice and
  // never recurses, whatever the pattern.
  struct Retry {
    size_t glob = std::string_view::npos;
    size_t text = 0;
  };
  Retry star, double_star;
  size_t g = 0, t = 0;
  while (true) {
    if (g < glob.size() && glob[g] == '*') {
      bool is_double = g + 1 < glob.size() && glob[g + 1] == '*';
      while (g < glob.size() && glob[g] == '*') ++g;
      if (is_double) {
        // "**/" also matches nothing, at the start of a component.
        if (g < glob.size() && glob[g] == '/' && (t == 0 || text[t - 1] == '/')) ++g;
        double_star = {g, t};
        star = {};
      } else {
        star = {g, t};
      }
      continue;
    }
    size_t length = 0;
    if (g < glob.size() && t < text.size() && MatchesOne(glob.substr(g), text[t], length)) {
      g += length;
      ++t;
      continue;
    }
    if (g == glob.size() && t == text.size()) return true;
    if (star.glob != std::string_view::npos && star.text < text.size() && text[star.text] != '/') {
      t = ++star.text;
      g = star.glob;
      continue;
    }
    if (double_star.glob == std::string_view::npos || double_star.text >= text.size()) return false;
    t = ++double_star.text;
    // After "**/" a match may begin only where a component does.
    bool at_component = double_star.glob > 0 && glob[double_star.glob - 1] == '/';
    while (at_component && t < text.size() && text[t - 1] != '/') ++t;
    double_star.text = t;
    g = double_star.glob;
    star = {};
  }
}

void IgnoreRules::AddFile(std::string_view directory, std::string_view text) {
  std::string prefix = directory.empty() ? "" : std::string(directory) + "/";
  for (std::string line : Split(text, '\n')) {
    if (line.ends_with('\r')) line.pop_back();
    while (line.ends_with(' ') && !line.ends_with("\\ ")) line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    Pattern pattern{.directory = prefix};
    if (line[0] == '!') {
      pattern.negated = true;
      line.erase(0, 1);
    }
    if (line.ends_with('/')) {
      pattern.directories_only = true;
      line.pop_back();
    }
    pattern.anchored = line.find('/') != std::string::npos;
    if (line.starts_with('/')) line.erase(0, 1);
    if (line.empty()) continue;
    pattern.glob = std::move(line);
    patterns_.push_back(std::move(pattern));
  }
}

bool IgnoreRules::IsIgnored(std::string_view path, bool is_directory) const {
  return Decide(path, is_directory).value_or(false);
}

std::optional<bool> IgnoreRules::Decide(std::string_view path, bool is_directory) const {
  for (auto pattern = patterns_.rbegin(); pattern != patterns_.rend(); ++pattern) {
    if (pattern->directories_only && !is_directory) continue;
    if (!path.starts_with(pattern->directory)) continue;
    std::string_view subject = path.substr(pattern->directory.size());
    if (!pattern->anchored) subject = subject.substr(subject.rfind('/') + 1);
    if (MatchesGlob(pattern->glob, subject)) return !pattern->negated;
  }
  return std::nullopt;
}

}  // namespace rt
