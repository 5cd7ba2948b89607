// Executors: capacity that was granted to the session of a driver, and detached actors
// (docs/adr/0041). What they run is between the driver and them. Part of state.h.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/fields.h"
#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/spec/executor_spec.h"
#include "head/core/attempt.h"
#include "head/core/facts.h"

namespace rt {

struct Executor {
  ExecutorId id;
  std::string owner;    // The user.
  std::string session;  // With `opener`: see SessionKey.
  AttemptId opener;
  std::string request_key;
  std::string normal_spec;  // Empty once it has ended.
  uint32_t spec_format = 0;
  Runs runs;
  bool release_requested = false;
  std::string release_reason;
  ExecutorEnd end = ExecutorEnd::kNone;
  int32_t exit_code = 0;
  int32_t signal = 0;
  std::string reason;
  Millis created_at = 0;
  Millis started_at = 0;
  Millis ended_at = 0;
  uint64_t ended_seq = 0;  // The record; 0: it has not ended.
  std::string name;        // These four as its spec says.
  bool detached = false;
  std::string actor_name;
  std::string actor_class;
  Millis restart_at = 0;  // It is not placed before, although it is to run; 0: it may be.
  ErrorInfo error;        // As in ExecutorEnded.
  RT_FIELDS(Executor, id, owner, session, opener, request_key, normal_spec, spec_format, runs,
            release_requested, release_reason, end, exit_code, signal, reason, created_at,
            started_at, ended_at, ended_seq, name, detached, actor_name, actor_class, restart_at,
            error);

  bool is_over() const { return end != ExecutorEnd::kNone; }
};

// The driver's session that executors belong to. Of drivers in attempts the name is theirs alone;
// of those outside, their user's.
struct SessionKey {
  Owner opener;  // No owner: the driver is outside.
  std::string user;
  std::string name;
  friend auto operator<=>(const SessionKey&, const SessionKey&) = default;

  static SessionKey Of(const Executor& executor) {
    return {executor.opener.owner, executor.owner, executor.session};
  }
};
// Derived, as ExperimentIndex is.
struct SessionIndex {
  std::set<ExecutorId> executors;  // Those that are known, ended ones included.
  std::map<std::string, std::vector<ExecutorId>> by_key;
  // For each of them the newest record that its driver wants to know of, or a later one; and the
  // same by record.
  std::map<ExecutorId, uint64_t> changed;
  std::set<std::pair<uint64_t, ExecutorId>> by_change;
  // Of a change after this record the executor is still known. A driver that has seen less is told
  // of all executors, so that it notices which were forgotten.
  uint64_t complete_after = 0;
  size_t open = 0;           // That have not ended,
  size_t open_detached = 0;  // and those of them that outlive the session.
  uint64_t changed_seq = 0;  // The largest of `changed`, or of one that was forgotten.
};
struct ExecutorIndex {
  std::map<SessionKey, SessionIndex> sessions;
  std::map<ExecutorId, ExecutorSpec> specs;         // Of those that have not ended.
  std::set<std::pair<uint64_t, ExecutorId>> ended;  // By ended_seq.
  std::set<std::pair<Millis, ExecutorId>> delayed;  // By restart_at.
  std::map<std::pair<std::string, std::string>, ExecutorId> actors;  // Detached: (user, name).
  // The same of those that ended by themselves, while they are known and no newer one had the name.
  std::map<std::pair<std::string, std::string>, ExecutorId> dead_actors;
  size_t open = 0;
};

}  // namespace rt
