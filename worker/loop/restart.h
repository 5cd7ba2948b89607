// Replaces a daemon whose loop hangs by a new one: the same program with the same arguments in the
// same process, so that a service manager sees no exit. What runs is left alone, as whenever a
// daemon ends. The environment tells the new daemon which attempt the loop hung in.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "worker/loop/loop_activity.h"

namespace rt::worker {

class Restart {
 public:
  // Made by main before there are other threads. `more`: variables that were removed from the
  // environment and that the next daemon needs as well.
  Restart(int argc, char** argv, std::vector<std::string> more);
  // What the previous daemon hung in; nullopt when it did not hang.
  const std::optional<HungActivity>& hung() const { return hung_; }
  [[noreturn]] void Now(const HungActivity& hung) const;

 private:
  std::string program_;
  std::vector<std::string> arguments_;
  std::vector<std::string> environment_;
  std::optional<HungActivity> hung_;
};

}  // namespace rt::worker
