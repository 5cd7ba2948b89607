// Apply's part about one run of an owner: what its rows, checkpoints and end change. Called by
// apply.cc only; the same rules hold: nothing is decided here.
#pragma once

#include "head/core/state.h"

namespace rt {

// A generation that begins now.
Attempt NewAttempt(const AttemptId& id, std::vector<Member> members, uint64_t checkpoint,
                   Millis at);
// Past ones are dropped when there are too many.
void AddAttempt(Runs& runs, Attempt attempt);
// The live generation is over: what is only known while it lives is forgotten.
void CloseAttempt(Attempt& live, AttemptOutcome outcome, Millis at);
// The live attempt that the event names; there is one.
Attempt& LiveOf(World& world, const AttemptId& id);
// Restores what the trial knew at the checkpoint that it resumes from, or clears it.
void Rewind(Trial& trial, uint64_t checkpoint_id);

// Of a row that comes with a checkpoint; the oldest goes when there are too many.
void NoteCheckpointRow(Attempt& live, CheckpointRow row);

void ApplyEnd(World& world, const event::AttemptEnded& e, Millis at);
void ApplyRows(World& world, const event::ReportsAccepted& e, uint64_t event_seq);
void ApplyShard(World& world, const event::CheckpointShardCommitted& e);
void ApplyCheckpoint(World& world, const event::CheckpointCommitted& e, Millis at);
void ApplyOutputs(World& world, const event::OutputsKept& e, Millis at);

void ApplyPreemption(World& world, const event::PreemptionRequested& e);
void AddExit(World& world, const event::RankExited& e);

}  // namespace rt
