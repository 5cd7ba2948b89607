// Failpoints: named moments at which a daemon that was told to dies, stands still or fails, so that
// a test puts a crash exactly there (docs/reliability.md, tests/chaos/failpoints.py). All names
// stand in the table below; others do not compile. Off unless armed at the start:
//   RT_FAILPOINTS=head.journal.before_commit=kill@3,worker.spool.before_append=error
// kill: SIGKILL to itself; stop:MS: the thread stands still for so long; kill:MS: it stands still,
// and dies then, so that what others do too early is done; error: the operation fails as with EIO;
// @K: at the K-th time, the first unless said, and only then. Thread-safe. While none is armed, a
// point costs one relaxed load.
#pragma once

#include <atomic>
#include <iterator>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace rt {

struct FailpointInfo {
  std::string_view name;  // Begins with the daemon that has it.
  bool can_fail = false;  // It is an operation, which can be made to return an error.
};

inline constexpr bool kCanFail = true;
inline constexpr FailpointInfo kFailpoints[] = {
    {"head.start.before_replay"},
    {"head.start.after_replay"},  // Before its first record.
    {"head.port.before_accept"},  // A connection, or several, that ask for it.
    {"head.loop.before_append"},  // Decided and applied; the journal has not seen it.
    {"head.loop.before_answer"},  // Durable; nobody was told.
    {"head.loop.after_answer"},
    {"head.journal.before_write", kCanFail},   // Of a group of batches.
    {"head.journal.before_commit", kCanFail},  // All written, in an open transaction.
    {"head.journal.after_commit", kCanFail},   // Durable; memory does not know.
    {"head.snapshot.before_write", kCanFail},
    {"head.snapshot.after_write", kCanFail},  // Before older ones are removed.
    {"head.sinks.before_flush"},              // Rows of a trial, to its result files.
    {"head.sinks.before_cursor", kCanFail},   // Rows are in the files; the cursor does not say so.
    {"head.sinks.after_cursor"},
    {"head.ship.before_fence"},  // The slot with which a head takes the shipped log.
    {"head.ship.after_fence"},
    {"head.ship.before_put", kCanFail},  // A slot of the shipped log.
    {"head.ship.after_put", kCanFail},   // It is there; the answer is lost.
    {"head.ship.before_snapshot", kCanFail},
    {"head.store.before_chunks", kCanFail},  // Received, not stored.
    {"head.store.before_rename", kCanFail},  // A chunk or manifest is synced and has no name yet.
    {"head.store.after_chunks", kCanFail},
    {"head.store.before_manifest", kCanFail},
    {"head.store.after_manifest", kCanFail},
    {"head.checkpoint.before_commit"},  // Bytes and manifest are there; the core has not heard.
    {"head.checkpoint.after_commit"},   // Durable; the worker was not told.
    {"head.outputs.before_kept"},  // What an attempt wrote is in the store; the core has not heard.
    {"head.outputs.after_kept"},   // Durable; the worker was not told.
    {"head.provider.before_append"},     // Records about machines; the journal has not seen them.
    {"head.provider.before_create"},     // Machines are requested in the journal.
    {"head.provider.after_create"},      // The provider has made them; the core has not heard.
    {"head.provider.after_created"},     // The journal has what the provider has made.
    {"head.provider.before_terminate"},  // They are released in the journal.
    {"head.provider.after_terminate"},
    {"head.provider.after_terminated"},         // The journal has forgotten them.
    {"head.sweep.after_mark", kCanFail},        // What lives is known.
    {"head.sweep.before_unlink"},               // A file of the store in the state directory.
    {"head.sweep.before_tombstone", kCanFail},  // Of an object that nothing names.
    {"head.sweep.after_tombstones", kCanFail},
    {"head.sweep.before_delete", kCanFail},  // Its grace is over.
    {"head.sweep.after_delete", kCanFail},   // Its tombstone is still there.
    {"worker.outputs.before_take"},  // The attempt is over; its outputs lie in its run directory.
    {"worker.outputs.after_work"},   // The working directory is moved, the rest is not.
    {"worker.outputs.after_take"},   // All is moved; the run directory is still there.
    {"worker.outputs.before_push", kCanFail},
    {"worker.outputs.after_push", kCanFail},  // The store has them; the head has not heard.
    {"worker.outputs.after_told"},            // The head knows; they are still on this disk.
    {"worker.start.before_adopt"},            // An attempt that an earlier daemon left running.
    {"worker.start.after_adopt"},
    {"worker.sync.before_take"},                    // The head has said what should run.
    {"worker.prepare.before_directory", kCanFail},  // Of a run.
    {"worker.prepare.after_directory", kCanFail},
    {"worker.launch.before_body", kCanFail},  // What a later daemon would know the attempt by.
    {"worker.launch.after_body", kCanFail},
    {"worker.launch.after_start"},  // The program runs; the head does not know.
    {"worker.spool.before_append", kCanFail},
    {"worker.spool.after_append"},                  // The trial was not told.
    {"worker.report.before_send"},                  // Rows, to the head.
    {"worker.report.after_send"},                   // The head has them; the spool does not know.
    {"worker.checkpoint.before_snapshot"},          // Its row is noted.
    {"worker.checkpoint.before_rename", kCanFail},  // All is staged, under a name that says so.
    {"worker.checkpoint.after_rename"},             // The trial was not told.
    {"worker.checkpoint.before_push", kCanFail},
    {"worker.checkpoint.mid_push"},                   // Between two chunks.
    {"worker.checkpoint.before_manifest", kCanFail},  // All chunks are there.
    {"worker.checkpoint.after_push", kCanFail},       // So is the manifest; nothing is committed.
    {"worker.checkpoint.before_hold", kCanFail},      // Its name is noted; it is not moved yet.
    {"worker.checkpoint.after_hold"},                 // It is held here; nobody else knows.
    {"worker.held.before_push", kCanFail},            // It is committed, and this node's to push.
    {"worker.held.after_push"},                       // The store has it; the head was not told.
    {"worker.checkpoint.after_commit"},               // This node has not noted it.
    {"worker.checkpoint.before_forget"},              // Noted; the staged files are still there.
    {"worker.restore.before_pull", kCanFail},
    {"worker.restore.mid_pull"},                 // Between two chunks.
    {"worker.restore.before_rename", kCanFail},  // All is there, beside its place.
    {"worker.peer.before_serve", kCanFail},      // Another worker asks for chunks.
    {"worker.peer.mid_serve", kCanFail},         // It got one.
    {"worker.output.before_search"},             // For a pattern, in what a program wrote.
    {"worker.exit.after_seen"},                  // A program's exit is read; nobody was told.
    {"worker.exit.before_report"},               // Its rows and checkpoints are out.
    {"worker.forget.before_close"},              // The head wants nothing of the attempt any more.
    {"worker.forget.before_retire"},             // Its run directory is still there.
    {"worker.signal.before_signal"},             // What runs is to end.
    {"worker.freeze.after_note"},                // That a freeze begins; nothing is done.
    {"worker.freeze.before_stop"},               // Its gpus are free; it still runs.
    {"worker.freeze.after_stop"},                // It is stopped; the note does not say so.
    {"worker.freeze.before_report"},             // The note does; the head does not know.
    {"worker.thaw.after_note"},                  // That it is to continue; it is stopped.
    {"worker.thaw.before_resume"},               // It runs; its gpus do not have its memory.
    {"worker.thaw.before_report"},               // All is done and noted; the head does not know.
    {"worker.fence.before_end"},                 // No head for --disconnect-stop.
    // Of `rt up` and `rt down` of a cluster in a cloud.
    {"client.up.before_key"},         // The id of the cluster is noted; nothing was asked for.
    {"client.up.before_role"},        // The key pair is there.
    {"client.up.before_create"},      // So is the role of the head.
    {"client.up.after_group"},        // And the security group; the machine is asked for next.
    {"client.up.after_create"},       // The machine of the head is made; it is not noted here.
    {"client.up.before_setup"},       // It is noted and has an address.
    {"client.up.before_yield"},       // Another client's machine of the head is older than ours.
    {"client.up.after_setup"},        // The head runs and has let us in; port 22 is still open.
    {"client.down.before_head"},      // Nothing was asked to end.
    {"client.down.before_machines"},  // The head has ended the workers, and itself.
    {"client.down.before_role"},      // All machines have ended.
    {"client.down.before_group"},     // The role is gone.
    {"client.down.before_key"},       // So is the group.
    {"client.down.before_forget"},    // Nothing is left in the cloud; it is still noted here.
};

// The name of a point, checked when it is compiled.
template <bool kFails>
class FailpointName {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): so that a literal is a name.
  consteval FailpointName(const char* name) : index_(Find(name)) {}
  constexpr size_t index() const { return index_; }

 private:
  static consteval size_t Find(std::string_view name) {
    for (size_t i = 0; i < std::size(kFailpoints); ++i)
      if (kFailpoints[i].name == name && kFailpoints[i].can_fail == kFails) return i;
    throw "no failpoint of this kind has that name";  // Which ends the compilation.
  }
  size_t index_;
};

namespace failpoints {
extern std::atomic<bool> any_armed;
absl::Status Reach(size_t index);
}  // namespace failpoints

// Stands where the moment is.
inline void ReachFailpoint(FailpointName<false> name) {
  if (failpoints::any_armed.load(std::memory_order_relaxed))
    failpoints::Reach(name.index()).IgnoreError();
}
// Stands in front of an operation: an error is to be taken for the operation's own.
inline absl::Status FailAt(FailpointName<true> name) {
  if (!failpoints::any_armed.load(std::memory_order_relaxed)) return absl::OkStatus();
  return failpoints::Reach(name.index());
}

// Arms what `text` (of RT_FAILPOINTS) says of `daemon`, "head", "worker" or "client" (the command);
// what it says of the others is left to them. Replaces what was armed before. InvalidArgument, with
// the names that there are, when it says something wrong; nothing changes then.
absl::Status ArmFailpoints(std::string_view text, std::string_view daemon);
// The same from the environment of this process.
absl::Status ArmFailpointsFromEnvironment(std::string_view daemon);
// The daemon's points, one a line: "NAME kill stop" or "NAME kill stop error".
std::string ListFailpoints(std::string_view daemon);

}  // namespace rt
