// The key q on the terminal that is standard input ends a live screen. While this lives, keys are
// not echoed and need no Enter; Ctrl-C and SIGTERM put the terminal back first. Used by one thread;
// one at a time.
#pragma once

#include "common/base/time.h"

namespace rt {

class QuitKey {
 public:
  QuitKey();
  ~QuitKey();
  QuitKey(const QuitKey&) = delete;
  QuitKey& operator=(const QuitKey&) = delete;

  bool works() const { return works_; }  // Standard input is a terminal.
  // Waits for so long; whether q was pressed by then.
  bool Pressed(Millis wait) const;

 private:
  bool works_ = false;
};

}  // namespace rt
