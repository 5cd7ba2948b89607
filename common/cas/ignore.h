// What .gitignore and .rtignore files leave out of a bundle, with git's rules: the last pattern
// that matches wins, '!' takes back, a trailing '/' means directories only, a '/' elsewhere
// anchors the pattern to its file's directory, '*' and '?' stay within a component, '**' crosses
// them. As in git, nothing below an ignored directory can be taken back. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rt {

class IgnoreRules {
 public:
  // Adds the lines of one ignore file that lies in `directory` (relative to the root, "" for it).
  // Files are added from the root downwards: deeper ones win.
  void AddFile(std::string_view directory, std::string_view text);
  // Whether the entry itself is ignored; `path` is relative to the root.
  bool IsIgnored(std::string_view path, bool is_directory) const;
  // The same, and nullopt where no pattern matches: false then means that '!' takes the entry back.
  std::optional<bool> Decide(std::string_view path, bool is_directory) const;
  size_t size() const { return patterns_.size(); }
  // Forgets what was added after there were `size` patterns: the walk leaves a directory.
  void Truncate(size_t size) { patterns_.resize(size); }

 private:
  struct Pattern {
    std::string directory;  // "" or "a/b/": where the pattern counts.
    std::string glob;
    bool negated = false;
    bool directories_only = false;
    bool anchored = false;
  };
  std::vector<Pattern> patterns_;
};

// Whether the whole of `text` matches, with the meaning of *, ?, [], \ and ** above.
bool MatchesGlob(std::string_view glob, std::string_view text);

}  // namespace rt
