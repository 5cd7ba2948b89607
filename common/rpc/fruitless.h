// Finds a connection that sends much of which nothing comes: header blocks without an end
// (CVE-2023-33953), frames that mean nothing. What comes of bytes are calls that begin and end and
// messages that arrive whole. Pure; looked at again and again by the listener's thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/base/time.h"
#include "common/rpc/port_limits.h"
#include "common/rpc/tcp_socket.h"

namespace rt {

class FruitlessBytes {
 public:
  // `progress` changes whenever something came of what was received. `bodies()` is the number of
  // messages that may be arriving; it is only asked when much has arrived.
  template <typename Bodies>
  bool Look(Millis now, const TcpFacts& facts, uint64_t progress, Bodies&& bodies) {
    // A process that was stopped meanwhile has not watched for longer than this.
    const Millis step = std::min(now - looked_at_, limits::kFruitlessStep);
    looked_at_ = now;
    if (progress != progress_ || progress_at_ == 0) {
      progress_ = progress;
      progress_at_ = now;
      lasted_ = 0;
      before_ = facts;
      return false;
    }
    // Pings of an idle client; window updates of one that is being sent much.
    const Bytes idle = (now - progress_at_) / 1'000 * limits::kIdleBytesPerSecond +
                       (facts.sent - before_.sent) / 8;
    const Bytes taken = facts.taken - before_.taken - idle;
    if (taken <= limits::kFruitlessBytes) {
      lasted_ = 0;
      return false;
    }
    lasted_ += step;
    if (taken <= limits::kSilentBytesMax && lasted_ <= limits::kFruitlessMax) return false;
    const auto count = static_cast<Bytes>(bodies());
    if (count == 0) return true;
    return taken > count * limits::kBodyBytesMax || lasted_ > limits::kBodyMax;
  }

 private:
  uint64_t progress_ = 0;
  Millis progress_at_ = 0;
  Millis looked_at_ = 0;
  Millis lasted_ = 0;  // How long more than kFruitlessBytes have been there.
  TcpFacts before_;    // At progress_at_.
};

}  // namespace rt
