// Lines: where the trials of a search are over in a moment, and it says so (short_trials), the next
// one is placed on the room of one that runs, behind it. Its worker gets it ready meanwhile, and
// starts it once the one before it has ended, without asking the head; the head gives it the room
// when it hears of that end. Who stands in line and was not started yet holds nothing: whatever the
// room is needed for otherwise sends it back to the queue.
//
//   first (runs, holds the room) <- second <- third        Attempt::after, Index::backfills
#pragma once

#include <set>
#include <string>

#include "head/core/draft.h"

namespace rt {

// Who stands last in the line that begins with the attempt; itself, where nobody does.
AttemptId LastBackfill(const World& world, AttemptId first);

// How long a search's trials take, and behind whom its next ones could stand: forgotten by a head
// that restarts. `last`: who stood last in its line before it ended.
void NoteEnd(Draft& draft, const AttemptId& ended, const AttemptId& last);
void NotePlaced(Draft& draft, const AttemptId& placed);

// Places the first of a queue that has no room behind a trial of its own search, not on `closed`.
bool Backfill(Draft& draft, const ResourceRequest& wanted, const ReadyQueue& queue,
              const std::set<NodeId>& closed);

// Back to the queue, unless they were started: the owner, if it stands in a line; all of a search,
// of a node, or behind an attempt.
void CancelBackfill(Draft& draft, const Owner& owner, const std::string& reason);
void CancelBackfills(Draft& draft, ExperimentId experiment, const std::string& reason);
void CancelBackfills(Draft& draft, NodeId node, const std::string& reason);
void CancelBackfills(Draft& draft, const AttemptId& first, const std::string& reason);
// Those who have waited for too long, or for whom there is room elsewhere.
void ReviewBackfills(Draft& draft);

}  // namespace rt
