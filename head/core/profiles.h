// What elastic attempts have measured (docs/adr/0038): their workers send it with each Sync until
// it is in the state, where it is merged for each owner, at most once per interval, and bounded.
// Owners of one class (the same command with the same inputs and resources per rank) share it, also
// after their end: a restarted head, and a new job of the class, begin with what is known.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/elastic/taught.h"
#include "head/core/core.h"

namespace rt {

struct Draft;

// Null: nothing was measured.
const JobProfile* FindProfile(const State& state, const Owner& owner);
// Which profiles the owner shares: the same text for the same program.
std::string JobClassOf(const World& world, const Owner& owner);

// Those of this Sync that are news.
void TakeProfiles(Draft& draft, const input::Sync& sync);
// Apply's part: called by Apply only.
void ApplyProfile(World& world, const event::ProfileRecorded& e, Millis at);

// What is known of elastic jobs at one record. It has each profile once, because it is made on the
// core thread.
struct ElasticMemory {
  struct Member {
    Owner owner;
    bool has_completed = false;  // As in ClassRecord.
    friend bool operator==(const Member&, const Member&) = default;
  };
  std::map<Owner, ElasticProfile> own;
  // Of each class the newest limits::kClassProfilesMax, from the oldest to the newest.
  std::map<std::string, std::vector<Member>> classes;
  // The profiles of a class, for TeachClass; empty: nothing is known of it.
  std::vector<ClassRecord> RecordsOf(const std::string& job_class) const;
  friend bool operator==(const ElasticMemory&, const ElasticMemory&) = default;
};
ElasticMemory RecallProfiles(const State& state);

}  // namespace rt
