#include "worker/run/loop_turn.h"

#include <cstdlib>

#include "common/base/strings.h"

namespace rt::worker {
namespace {

constexpr TurnPart kParts[] = {TurnPart::kTakeover, TurnPart::kStart, TurnPart::kAct,
                               TurnPart::kOutput, TurnPart::kEnd};

}  // namespace

const char* TurnPartName(TurnPart part) {
  switch (part) {
    case TurnPart::kNone: return "none";
    case TurnPart::kTakeover: return "takeover";
    case TurnPart::kStart: return "start";
    case TurnPart::kAct: return "action";
    case TurnPart::kOutput: return "output";
    case TurnPart::kEnd: return "end";
  }
  return "";
}

std::string HungTurn::Reason() const {
  return "the worker's loop hung for " + FormatDouble(ToSeconds(span)) +
         " s while it handled this attempt (" + TurnPartName(part) + "); the daemon was restarted";
}

std::string ToString(const HungTurn& hung) {
  const std::string name =
      hung.part == TurnPart::kNone ? std::string("-") : rt::ToString(hung.fence);
  return name + " " + TurnPartName(hung.part) + " " + std::to_string(hung.span);
}

std::optional<HungTurn> ParseHungTurn(const std::string& text) {
  const std::vector<std::string> words = Split(text, ' ');
  if (words.size() != 3) return std::nullopt;
  HungTurn hung{.span = std::strtoll(words[2].c_str(), nullptr, 10)};
  if (words[0] == "-") return hung;
  const std::optional<Fence> fence = ParseFence(words[0]);
  if (!fence) return std::nullopt;
  hung.fence = *fence;
  for (TurnPart part : kParts)
    if (words[1] == TurnPartName(part)) hung.part = part;
  if (hung.part == TurnPart::kNone) return std::nullopt;
  return hung;
}

void LoopTurn::NextRound(int thread) {
  thread_ = thread;
  part_ = TurnPart::kNone;
  ++moves_;
}

Fence LoopTurn::fence() const {
  const Owner owner{kind_, group_, owner_number_};
  return {{owner, number_, generation_}, rank_};
}

void LoopTurn::Name(const Fence& fence, TurnPart part) {
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

LoopTurn::Scope::Scope(LoopTurn& turn, const Fence& fence, TurnPart part)
    : turn_(turn), fence_before_(turn.fence()), part_before_(turn.part()) {
  turn_.Name(fence, part);
}

LoopTurn::Scope::~Scope() { turn_.Name(fence_before_, part_before_); }

}  // namespace rt::worker
