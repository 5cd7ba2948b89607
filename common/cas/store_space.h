// Whether there is room for what is about to be written. A store refuses before the disk is full,
// because what else lies there (the journal, what trials write) needs room as well, and before it
// holds more than its quota.
#pragma once

#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/time.h"

namespace rt {

// What writes leave free of a file system of that size (limits.h).
Bytes SpaceKeptFree(Bytes file_system_bytes);
// ResourceExhausted, with how much is needed and free, when less than that would be left.
absl::Status CheckSpace(const std::string& directory, Bytes bytes);

struct StoreUse {
  Bytes used_bytes = 0;
  Bytes quota_bytes = 0;  // 0: no bound.
  bool refuses = false;   // What was refused last has no room yet.
  std::string reason;     // Of that, while it refuses.
};

// The books of one store: what it holds, what writes that are under way will add, and what it may
// hold. Says once in the log that it refuses, and once that it no longer does. Thread-safe.
class StoreSpace {
 public:
  struct Want {
    Bytes growth = 0;   // By which the store grows: nothing for what replaces its equal.
    Bytes written = 0;  // To the disk meanwhile.
    Bytes beyond = 0;   // So much above the quota is allowed.
  };
  // What one write has been promised; given back with this object, but for what was kept.
  class Part {
   public:
    Part(Part&& other) noexcept;
    Part& operator=(Part&&) = delete;
    ~Part();
    // An object of `bytes` is there now, in the place of one of `replaced` (0: of none).
    void Keep(Bytes bytes, Bytes replaced);

   private:
    friend class StoreSpace;
    Part(StoreSpace& space, const Want& want) : space_(&space), left_(want) {}
    StoreSpace* space_;
    Want left_;
  };

  // `quota` 0: no bound. `directory`: on whose file system the store lies; empty: on none of ours.
  StoreSpace(Bytes quota, std::string directory)
      : quota_(quota), directory_(std::move(directory)) {}

  absl::StatusOr<Part> Take(const Want& want);  // ResourceExhausted, with what to do.
  // The place itself had no room for a write of `bytes`.
  void Refused(const absl::Status& status, Bytes bytes);
  void Count(Bytes change);  // Of what was found (above 0) or is gone (below).
  // Whether something was refused since the last call of BeginSweep.
  bool IsShort() const;
  void BeginSweep();
  void LookAgain();  // Notices that there is room again. Asks the file system.
  StoreUse use() const;

 private:
  enum class Refusal { kNone, kQuota, kPlace };
  absl::Status TakeOfQuota(const Want& want);
  // Under mutex_.
  void Refuse(Refusal why, const absl::Status& status, Bytes bytes);
  void Accept();

  const Bytes quota_;
  const std::string directory_;
  mutable std::mutex mutex_;
  Bytes used_ = 0;
  Bytes growing_ = 0;  // Of writes that are under way.
  Bytes writing_ = 0;
  bool short_ = false;
  Refusal refusal_ = Refusal::kNone;
  Bytes asked_ = 0;  // By what was refused last.
  std::string reason_;
};

}  // namespace rt
