// Apply's part about executors, and what the index knows of their sessions. Nothing is decided
// here.
#pragma once

#include "head/core/state.h"

namespace rt {

void AddExecutor(World& world, const event::ExecutorRequested& e, Millis at);
void NoteRelease(World& world, const event::ExecutorReleaseRequested& e);
void DelayExecutor(World& world, const event::ExecutorDelayed& e);
// Of those that have ended, the newest are kept.
void EndExecutor(World& world, const event::ExecutorEnded& e, uint64_t seq, Millis at);
// After any record: the sessions that it concerns have news.
void NoteSessionRecord(World& world, const Event& event, uint64_t seq);
void ReindexExecutors(World& world);

// Attempts that failed by their own fault soon after their start, since the last one that did not.
// Those that machines ended do not count.
uint32_t QuickFailures(const Runs& runs);

// Null: nothing is known of it.
const SessionIndex* FindSession(const World& world, const SessionKey& key);

}  // namespace rt
