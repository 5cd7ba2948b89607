// Gpus that take no work until a person clears them, by uuid: kept as text in the worker's state
// directory, also over a boot. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/time.h"

namespace rt::worker {

struct Quarantined {
  uint64_t number = 0;  // Greater for a later one: about its time in milliseconds.
  std::string why;
  bool drains = false;  // The whole node drains because of it.
  friend bool operator==(const Quarantined&, const Quarantined&) = default;
};

class Quarantine {
 public:
  static Quarantine Parse(const std::string& text);  // What cannot be read is left out.
  std::string Text() const;

  // Returns whether anything changed: one that is quarantined stays so for its first reason, unless
  // only the later one drains the node.
  bool Add(const std::string& uuid, const std::string& why, bool drains, Millis now);
  // Ends that of this number and earlier ones; whether there was one.
  bool Clear(const std::string& uuid, uint64_t number);

  const Quarantined* Find(const std::string& uuid) const;
  // Why a node that lists these gpus drains: "gpu GPU-…: …"; "": no reason for it. Those of gpus
  // that it does not list wait for them: nobody could clear such a one.
  std::string WhyDrain(const std::vector<std::string>& listed) const;
  const std::map<std::string, Quarantined>& all() const { return all_; }

 private:
  std::map<std::string, Quarantined> all_;
};

}  // namespace rt::worker
