// Apply's part about executors, and what the index knows of their sessions. Nothing is decided
// here.
#pragma once

#include "head/core/state.h"

namespace rt {

void AddExecutor(World& world, const event::ExecutorRequested& e, Millis at);
void NoteRelease(World& world, const event::ExecutorReleaseRequested& e);
// Of those that have ended, the newest are kept.
void EndExecutor(World& world, const event::ExecutorEnded& e, uint64_t seq, Millis at);
// After any record: the sessions that it concerns have news.
void NoteSessionRecord(World& world, const Event& event, uint64_t seq);
void ReindexExecutors(World& world);

// Null: nothing is known of it.
const SessionIndex* FindSession(const World& world, const SessionKey& key);

}  // namespace rt
