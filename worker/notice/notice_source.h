// Where this machine is given notice: a cloud's metadata server, a scheduler's signal, a
// file. NoticeWatch (notice_watch.h) owns the sources and asks each on a thread of its own.
// A source that fails says nothing: what it said before stands. Implementations need not be
// thread-safe, but for what says so.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/time.h"

namespace rt::worker {

struct Notice {
  std::string reason;   // For people: "spot interruption (terminate)".
  Millis deadline = 0;  // By the wall clock; 0: nobody said when.
  friend bool operator==(const Notice&, const Notice&) = default;
};

class NoticeSource {
 public:
  virtual ~NoticeSource() = default;
  // As the user names it: "aws".
  virtual const char* name() const = 0;
  // What it says now; nullopt: nothing is to come. May take kLookMax. `now`: the wall clock.
  virtual absl::StatusOr<std::optional<Notice>> Look(Millis now) = 0;
  // How long to wait before the next Look.
  virtual Millis pause() const = 0;
  // The notice that stands need not wait for us any longer: nothing runs here.
  virtual absl::Status Acknowledge() { return absl::OkStatus(); }

  static constexpr Millis kLookMax = 5'000;
};

}  // namespace rt::worker
