#include "common/base/pattern.h"

#include <re2/re2.h>
#include <re2/stringpiece.h>

#include <ctime>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

RE2::Options Options() {
  RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(limits::kPatternMemory);
  return options;
}

// RE2 names the text that it refuses, not its place. It reads from left to right, so that the first
// occurrence is meant which still fails in the same way when nothing follows it.
size_t CulpritOf(const std::string& text, const RE2& refused) {
  const std::string& culprit = refused.error_arg();
  if (culprit.empty() || culprit == text) return std::string::npos;
  for (size_t at = text.find(culprit); at != std::string::npos; at = text.find(culprit, at + 1)) {
    const RE2 prefix(text.substr(0, at + culprit.size()), Options());
    if (prefix.error_code() == refused.error_code() && prefix.error_arg() == culprit) return at;
  }
  return std::string::npos;
}

std::string HintFor(RE2::ErrorCode code) {
  constexpr char kSyntax[] = "https://github.com/google/re2/wiki/Syntax";
  constexpr char kMissing[] = "RE2 has neither back references nor look-around";
  if (code == RE2::ErrorBadPerlOp || code == RE2::ErrorBadEscape)
    return std::string(kMissing) + ": " + kSyntax;
  if (code == RE2::ErrorRepeatSize || code == RE2::ErrorPatternTooLarge)
    return "a repetition {n} goes up to 1000, also when repetitions are nested";
  return std::string("the syntax is RE2's: ") + kSyntax;
}

int64_t ThreadMicros() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1'000;
}

}  // namespace

absl::StatusOr<Pattern> Pattern::Compile(const std::string& text) {
  auto regex = std::make_shared<RE2>(text, Options());
  if (!regex->ok()) {
    std::string why = "not a regular expression (RE2): " + regex->error();
    if (const size_t at = CulpritOf(text, *regex); at != std::string::npos)
      why += ", at character " + std::to_string(at + 1);
    return WithHint(Invalid(why), HintFor(regex->error_code()));
  }
  if (regex->ProgramSize() > limits::kPatternSteps)
    return WithHint(Invalid("not a regular expression that a worker may search for: too large (" +
                            std::to_string(regex->ProgramSize()) + " instructions, at most " +
                            std::to_string(limits::kPatternSteps) + ")"),
                    HintFor(RE2::ErrorPatternTooLarge));
  return Pattern(std::move(regex));
}

int Pattern::groups() const { return regex_->NumberOfCapturingGroups(); }

bool Pattern::IsIn(std::string_view text) const {
  return regex_->Match(re2::StringPiece(text.data(), text.size()), 0, text.size(), RE2::UNANCHORED,
                       nullptr, 0);
}

bool Pattern::Find(std::string_view text, size_t from, Match& match) const {
  std::vector<re2::StringPiece> found(static_cast<size_t>(groups()) + 1);
  const re2::StringPiece all(text.data(), text.size());
  if (!regex_->Match(all, from, text.size(), RE2::UNANCHORED, found.data(),
                     static_cast<int>(found.size())))
    return false;
  match.groups.clear();
  for (size_t i = 1; i < found.size(); ++i)
    match.groups.emplace_back(found[i].data() == nullptr
                                  ? std::string_view()
                                  : std::string_view(found[i].data(), found[i].size()));
  match.end = static_cast<size_t>(found[0].data() - text.data()) + found[0].size();
  match.is_empty = found[0].empty();
  return true;
}

ThreadBudget::ThreadBudget(Millis most) : until_us_(ThreadMicros() + most * 1'000) {}

bool ThreadBudget::IsSpent() const { return ThreadMicros() >= until_us_; }

}  // namespace rt
