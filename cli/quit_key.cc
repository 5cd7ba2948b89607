#include "cli/quit_key.h"

#include <poll.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>

#include "cli/client/local_cluster.h"
#include "common/run/clock.h"

namespace rt {
namespace {

termios terminal_before;  // For the handler; set before it is installed.

void PutTerminalBack(int number) {
  ::tcsetattr(0, TCSANOW, &terminal_before);
  ::signal(number, SIG_DFL);
  ::raise(number);
}

// The kernel would stop a background process that changes the terminal.
bool IsInForeground() { return ::tcgetpgrp(0) == ::getpgrp(); }

// Sets the terminal again after a shell has had it.
void TakeKeysAtOnce() {
  termios wanted{};
  if (!IsInForeground() || ::tcgetattr(0, &wanted) != 0 || (wanted.c_lflag & ICANON) == 0) return;
  wanted.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  wanted.c_cc[VMIN] = 1;
  wanted.c_cc[VTIME] = 0;
  ::tcsetattr(0, TCSANOW, &wanted);
}

}  // namespace

QuitKey::QuitKey() {
  works_ = ::isatty(0) == 1 && ::tcgetattr(0, &terminal_before) == 0;
  if (!works_) return;
  for (int number : {SIGINT, SIGTERM, SIGHUP}) ::signal(number, PutTerminalBack);
  TakeKeysAtOnce();
}

QuitKey::~QuitKey() {
  if (!works_) return;
  for (int number : {SIGINT, SIGTERM, SIGHUP}) ::signal(number, SIG_DFL);
  if (IsInForeground()) ::tcsetattr(0, TCSANOW, &terminal_before);
}

bool QuitKey::Pressed(Millis wait) const {
  if (!works_) {
    SleepFor(wait);
    return false;
  }
  TakeKeysAtOnce();
  const Millis until = SteadyClock() + wait;
  while (true) {
    const Millis left = until - SteadyClock();
    pollfd keys{0, POLLIN, 0};
    if (!IsInForeground() || ::poll(&keys, 1, static_cast<int>(left < 0 ? 0 : left)) <= 0) break;
    char key = 0;
    if (::read(0, &key, 1) <= 0) break;
    if (key == 'q' || key == 'Q') return true;
  }
  SleepFor(std::max<Millis>(0, until - SteadyClock()));
  return false;
}

}  // namespace rt
