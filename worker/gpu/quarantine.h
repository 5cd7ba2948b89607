// The quarantines of gpus, by uuid: such a gpu takes no work until a person or a probe clears it.
// The worker keeps them as text in its state directory, where they survive a reboot. Pure.
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
  bool drains = false;   // The whole node drains because of it.
  bool by_hand = false;  // No probe ends it, only a person.
  friend bool operator==(const Quarantined&, const Quarantined&) = default;
};

class Quarantine {
 public:
  static Quarantine Parse(const std::string& text);  // Lines that cannot be read are skipped.
  std::string Text() const;

  // Returns whether anything changed. A gpu that is in quarantine keeps its first reason, unless
  // the new one is graver: it drains the node, or only a person ends it. The number is Add's own.
  bool Add(const std::string& uuid, Quarantined fault, Millis now);
  // Ends the gpu's quarantine if its number is at most `number`. Returns whether it did.
  bool Clear(const std::string& uuid, uint64_t number);

  const Quarantined* Find(const std::string& uuid) const;
  // Why a node that lists these gpus drains: "gpu GPU-…: …"; "": it need not drain. The quarantine
  // of a gpu that is not listed has no effect until the gpu is listed again, because a person can
  // only clear gpus that are listed.
  std::string WhyDrain(const std::vector<std::string>& listed) const;
  const std::map<std::string, Quarantined>& all() const { return all_; }

 private:
  std::map<std::string, Quarantined> all_;
};

}  // namespace rt::worker
