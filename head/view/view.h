// Read models: the JSON of shared command lines and drivers (`rt … -o json`), one function per
// noun, computed on the core thread from a consistent state. This folder only reads: nothing in it
// changes the state, and the core does not include it. The field names are a contract
// (docs/user-guide.md, "JSON").
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/json.h"
#include "head/core/core.h"
#include "head/core/names.h"

namespace rt {

struct StoreFacts {  // Of the checkpoint store: common/cas/store_space.h.
  Bytes used_bytes = 0;
  Bytes quota_bytes = 0;
  bool refuses = false;
  std::string reason;
};

struct HeadFacts {  // What the core does not know of itself.
  std::string address;
  uint64_t durable_seq = 0;
  std::optional<uint64_t> shipped_seq;
  uint64_t bytes_synced = 0;
  Millis now = 0;
  StoreFacts store;
  std::string hook_problem;  // Of autoscaling.hooks: the newest failure; empty: none.
  std::string port_fault;    // Why its port closed connections lately; empty: it did not.
};

// `whole`: of what is over, up to limits::kStatusWholeMax experiments and jobs are listed.
Json StatusView(const Core& core, const HeadFacts& facts, bool whole = false);
// A part of a list by ascending id. A page is cut at limits::kListItemsMax items and near 2 MiB:
// its "next" is then the id of the first item that is left.
struct ListSpan {
  uint64_t from = 0;  // The first id wanted.
  size_t limit = 0;   // Of items; 0: as many as a page has.
};
Json ExperimentPageView(const Core& core, const HeadFacts& facts, const ListSpan& span);
// All of them at once: for clients that know no pages.
Json ExperimentListView(const Core& core, const HeadFacts& facts);
absl::StatusOr<Json> ExperimentView(const Core& core, const HeadFacts& facts, ExperimentId id);
// All trials, or those of one experiment, from one of them on. A message has its limit: the list is
// cut near 2 MiB, and its "next" is then the id of the first one that is left.
struct TrialSpan {
  std::optional<ExperimentId> experiment;
  std::optional<TrialId> from;
};
absl::StatusOr<Json> TrialListView(const Core& core, const HeadFacts& facts, const TrialSpan& span);
absl::StatusOr<Json> TrialView(const Core& core, const HeadFacts& facts, TrialId id);
// The training of a trial that was cloned, as Ray's pbt_policy_<trial>.txt has it: a JSON line per
// configuration that it took along the checkpoints that it continued from, the oldest first. A line
// is [trial, parent, null, iteration of the parent's checkpoint, configuration of the parent, new
// configuration]; Ray's third value, the trial's own iteration then, is not in the state.
std::string PolicyLines(const Experiment& experiment, const Trial& trial);
Json JobPageView(const Core& core, const HeadFacts& facts, const ListSpan& span);
Json JobListView(const Core& core, const HeadFacts& facts);
absl::StatusOr<Json> JobView(const Core& core, const HeadFacts& facts, JobId id);
// [{"name", "min_workers", "max_workers", "nodes", "requested", "releasing", "reason"}]
Json PoolListView(const Core& core, const HeadFacts& facts);
// What request_resources asks for: {"bundles": [{"resources", "count"}], "by", "since", "unmet",
// "reason"}; null: nothing. `unmet`: bundles that the nodes that are there could not hold.
Json RequestedView(const Core& core, const HeadFacts& facts);
Json NodePageView(const Core& core, const HeadFacts& facts, const ListSpan& span);
Json NodeListView(const Core& core, const HeadFacts& facts);
// The unused and unexpired ones, by expiry.
Json TokenListView(const Core& core, const HeadFacts& facts);
absl::StatusOr<Json> NodeView(const Core& core, const HeadFacts& facts, NodeId id);
// A machine that was asked for and has not joined, by the name that its node will have.
absl::StatusOr<Json> RequestedNodeView(const Core& core, const HeadFacts& facts,
                                       const std::string& name);

// {"id","name","state","reason","outcome","exit_code","signal","attempt","node","run_dir"}: what a
// driver needs to reach it. Its params are never shown.
Json ExecutorItem(const Core& core, const HeadFacts& facts, const Executor& executor);
// Those of the session; of those that have ended, the ones that ended after the record.
Json SessionView(const Core& core, const HeadFacts& facts, const SessionKey& session,
                 uint64_t after);
// Those of the session that changed after the record, the oldest change first; nothing when some of
// them are not known any more, so that all must be shown.
std::optional<Json> SessionChanges(const Core& core, const HeadFacts& facts,
                                   const SessionKey& session, uint64_t after);
// What people see of executors: as ExecutorItem, with "owner", "session", "opened_by", "actor",
// "detached", "restarts" and times.
Json ExecutorPageView(const Core& core, const HeadFacts& facts, const ListSpan& span);
absl::StatusOr<Json> ExecutorView(const Core& core, const HeadFacts& facts, ExecutorId id);
// Who asks for the way to an executor: a driver of this user in an attempt of `opener` (no owner:
// it is outside). `session` empty: of any of its sessions.
struct RouteAsk {
  ExecutorId executor;
  std::string user;
  Owner opener;
  std::string session = {};
};
// {"node", "run", "run_dir"} of an executor of the caller's, or of a detached actor of the user.
absl::StatusOr<Json> ExecutorRoute(const Core& core, const RouteAsk& ask);
// {"total", "by_state", "sessions"}: those that have not ended.
Json ExecutorCounts(const Core& core);
// The detached actors: all, or those of one user. Those that ended by themselves are among them for
// as long as they are known.
Json ActorListView(const Core& core, const HeadFacts& facts, const std::string& user);
// A detached actor of the user's, with the "secret" that a connection to it shows.
absl::StatusOr<Json> ActorView(const Core& core, const HeadFacts& facts, const std::string& user,
                               const std::string& name);

// [{"number", "params"}]: the trials whose configuration the driver is asked for now, each with
// what the head's own search drew for it.
Json AskedView(const Core& core, ExperimentId id);

// Interface names: "PENDING", "RUNNING", …
const char* TrialStateName(const Core& core, const Trial& trial);
const char* JobStateName(const Core& core, const Job& job);
const char* ExecutorStateName(const Core& core, const Executor& executor);
const char* ExperimentStateName(const Core& core, const Experiment& experiment);

// One row with the fields that rt fills in (reference: Ray's auto-filled result fields): what
// result.json, `rt trial show` and drivers show.
Json FillResult(const Core& core, const Trial& trial, const AttemptId& attempt, const Row& row);

}  // namespace rt
