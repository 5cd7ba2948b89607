#include "worker/loop/loop_activity.h"

#include <cstdlib>

#include "common/base/strings.h"

namespace rt::worker {
namespace {

constexpr ActivityKind kParts[] = {ActivityKind::kTakeover, ActivityKind::kStart,
                                   ActivityKind::kAct, ActivityKind::kOutput, ActivityKind::kEnd};

}  // namespace

const char* ActivityName(ActivityKind part) {
  switch (part) {
    case ActivityKind::kNone: return "none";
    case ActivityKind::kTakeover: return "takeover";
    case ActivityKind::kStart: return "start";
    case ActivityKind::kAct: return "action";
    case ActivityKind::kOutput: return "output";
    case ActivityKind::kEnd: return "end";
  }
  return "";
}

std::string HungActivity::Reason() const {
  return "the worker's loop hung for " + FormatDouble(ToSeconds(span)) +
         " s while it handled this attempt (" + ActivityName(part) + "); the daemon was restarted";
}

std::string ToString(const HungActivity& hung) {
  const std::string name =
      hung.part == ActivityKind::kNone ? std::string("-") : rt::ToString(hung.fence);
  return name + " " + ActivityName(hung.part) + " " + std::to_string(hung.span);
}

std::optional<HungActivity> ParseHungActivity(const std::string& text) {
  const std::vector<std::string> words = Split(text, ' ');
  if (words.size() != 3) return std::nullopt;
  HungActivity hung{.span = std::strtoll(words[2].c_str(), nullptr, 10)};
  if (words[0] == "-") return hung;
  const std::optional<Fence> fence = ParseFence(words[0]);
  if (!fence) return std::nullopt;
  hung.fence = *fence;
  for (ActivityKind part : kParts)
    if (words[1] == ActivityName(part)) hung.part = part;
  if (hung.part == ActivityKind::kNone) return std::nullopt;
  return hung;
}

void LoopActivity::NextRound(int thread) {
  thread_ = thread;
  part_ = ActivityKind::kNone;
  ++moves_;
}

Fence LoopActivity::fence() const {
  const Owner owner{kind_, group_, owner_number_};
  return {{owner, number_, generation_}, rank_};
}

void LoopActivity::Name(const Fence& fence, ActivityKind part) {
  const Owner& owner = fence.attempt.owner;
  kind_ = owner.kind;
  group_ = owner.group;
  owner_number_ = owner.number;
  number_ = fence.attempt.number;
  generation_ = fence.attempt.generation;
  rank_ = fence.rank;
  part_ = part;
  ++moves_;
}

LoopActivity::Scope::Scope(LoopActivity& activity, const Fence& fence, ActivityKind part)
    : activity_(activity), fence_before_(activity.fence()), part_before_(activity.part()) {
  activity_.Name(fence, part);
}

LoopActivity::Scope::~Scope() { activity_.Name(fence_before_, part_before_); }

}  // namespace rt::worker
