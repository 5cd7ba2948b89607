// A journal whose records are also written to an object store as they become durable here, so that
// losing this machine loses nothing that was acknowledged (kSync), or at most the last second
// (kAsync). The shipped log is the fence between heads as well: a head begins by writing its
// HeadStarted there, and whoever is overtaken by another head's slot ends. See shipped_log.h.
//
// Local first, then the store, one object under way at a time; what becomes durable meanwhile is
// the next object. Reads show what is durable by the chosen measure only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/time.h"
#include "head/journal/journal.h"
#include "head/journal/shipped_log.h"

namespace rt {

enum class ShipMode { kAsync, kSync };

struct ShippingOptions {
  ShipMode mode = ShipMode::kAsync;
  std::string writer;           // Another one for every process.
  Millis ship_every = 300;      // kAsync: records wait this long for company.
  Millis retry_for = 60'000;    // kSync: then the append fails; kAsync retries without end.
  Millis kept_for = Millis{7} * 86'400'000;  // Of slots that are in packs.
  Bytes pack_bytes = 4 << 20;   // Shipped bytes that are worth a pack.
  // A head that heard nothing of the log for so long looks whether its last slot is still there
  // before it writes: far less than `kept_for`.
  Millis silence_max = 86'400'000;
  std::function<Millis()> boot_clock;  // Counts while the machine sleeps; tests replace it.
  // Called once, on a thread of the journal's, when another head has taken over (Aborted).
  std::function<void(absl::Status)> on_lost;
};

class ShippingJournal : public Journal {
 public:
  // Waits until everything that is durable here is shipped; DeadlineExceeded after `wait_for`.
  virtual absl::Status Flush(Millis wait_for) = 0;
};

// Brings `local` and the shipped log together: takes over what only the log has, and ships what
// only `local` has. Errors: the two have gone different ways (Aborted: another head took over while
// this one had records that it never shipped), the store cannot be reached (its own error).
// The first batch that is appended must begin with HeadStarted.
absl::StatusOr<std::unique_ptr<ShippingJournal>> OpenShippingJournal(
    std::unique_ptr<Journal> local, ObjectStore& store, ShippingOptions options);

// Appends the records of the log that `local` lacks. Aborted when they do not fit together.
absl::Status CatchUp(ShippedLog& log, Journal& local);

}  // namespace rt
