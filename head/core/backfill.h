// Backfill: in a search whose trials are short and which says so (short_trials), the next trial is
// placed on the capacity of a running one, behind it. Its worker prepares it meanwhile and starts
// it once the trial before it has ended, without asking the head. The head transfers the capacity
// when it learns of that end. A backfilled attempt that has not started holds no capacity: it
// returns to the queue when its capacity is needed otherwise.
//
//   first (runs) <- second <- third        Attempt::start_after, Index::backfills
#pragma once

#include <set>
#include <string>

#include "head/core/draft.h"

namespace rt {

// The last attempt of the chain that begins with `first`; `first` itself when nothing is behind it.
AttemptId LastBackfill(const World& world, AttemptId first);

// Record how long a search's trials take and where its next ones could be backfilled. A restarted
// head starts without this. `last`: the last attempt of its chain before it ended.
void NoteEnd(Draft& draft, const AttemptId& ended, const AttemptId& last);
void NotePlaced(Draft& draft, const AttemptId& placed);

// Backfills the first owner of a queue for which there is no free capacity, behind a trial of its
// own search and not on a node in `closed`.
bool Backfill(Draft& draft, const ResourceRequest& wanted, const ReadyQueue& queue,
              const std::set<NodeId>& closed);

// Backfilled attempts return to the queue, unless they have started: that of an owner, all of a
// search, all of a node, or all behind an attempt.
void CancelBackfill(Draft& draft, const Owner& owner, const std::string& reason);
void CancelBackfills(Draft& draft, ExperimentId experiment, const std::string& reason);
void CancelBackfills(Draft& draft, NodeId node, const std::string& reason);
void CancelBackfills(Draft& draft, const AttemptId& first, const std::string& reason);
// Cancels backfills that have waited for too long or that fit elsewhere.
void ReviewBackfills(Draft& draft);

}  // namespace rt
