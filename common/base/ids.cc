#include "common/base/ids.h"

#include <charconv>

namespace rt {
namespace {

template <class T>
bool TakeNumber(std::string_view& text, T& out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end == text.data()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

bool TakePrefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

std::string ToString(TrialId id) {
  return std::to_string(id.experiment.value) + "/" + std::to_string(id.number);
}

std::string ToString(const Owner& owner) {
  switch (owner.kind) {
    case Owner::Kind::kTrial:
      return "t" + std::to_string(owner.group) + "-" + std::to_string(owner.number);
    case Owner::Kind::kJob:
      return "j" + std::to_string(owner.group);
    case Owner::Kind::kExecutor: return "x" + std::to_string(owner.group);
    case Owner::Kind::kNone:
      break;
  }
  return "none";
}

std::string Describe(const Owner& owner) {
  switch (owner.kind) {
    case Owner::Kind::kTrial:
      return "trial " + ToString(owner.trial());
    case Owner::Kind::kJob:
      return "job " + std::to_string(owner.group);
    case Owner::Kind::kExecutor: return "executor " + std::to_string(owner.group);
    case Owner::Kind::kNone:
      break;
  }
  return "nothing";
}

std::string ToString(const AttemptId& attempt) {
  std::string text = ToString(attempt.owner) + ".a" + std::to_string(attempt.number);
  if (attempt.generation != 1) text += ".g" + std::to_string(attempt.generation);
  return text;
}

std::string ToString(const Fence& fence) {
  return ToString(fence.attempt) + ".r" + std::to_string(fence.rank);
}

std::optional<Fence> ParseFence(std::string_view text) {
  Fence fence;
  Owner& owner = fence.attempt.owner;
  if (TakePrefix(text, "t")) {
    owner.kind = Owner::Kind::kTrial;
    if (!TakeNumber(text, owner.group) || !TakePrefix(text, "-") || !TakeNumber(text, owner.number))
      return std::nullopt;
  } else if (TakePrefix(text, "j")) {
    owner.kind = Owner::Kind::kJob;
    if (!TakeNumber(text, owner.group)) return std::nullopt;
  } else if (TakePrefix(text, "x")) {
    owner.kind = Owner::Kind::kExecutor;
    if (!TakeNumber(text, owner.group)) return std::nullopt;
  } else {
    return std::nullopt;
  }
  if (!TakePrefix(text, ".a") || !TakeNumber(text, fence.attempt.number)) return std::nullopt;
  if (TakePrefix(text, ".g") && !TakeNumber(text, fence.attempt.generation)) return std::nullopt;
  if (!TakePrefix(text, ".r") || !TakeNumber(text, fence.rank) || !text.empty())
    return std::nullopt;
  return fence;
}

std::optional<TrialId> ParseTrialId(std::string_view text) {
  TrialId id;
  if (!TakeNumber(text, id.experiment.value) || !TakePrefix(text, "/") ||
      !TakeNumber(text, id.number) || !text.empty())
    return std::nullopt;
  return id;
}

}  // namespace rt
