// An experiment under way, shown as it goes: a frame in place on a terminal, at most 4 times a
// second; a line per change elsewhere, coalesced when changes are many. Used by one thread.
#pragma once

#include <functional>
#include <string>

#include "cli/client/head_client.h"
#include "cli/invocation.h"
#include "cli/render/live.h"
#include "common/base/time.h"

namespace rt {

// Whether `fd` is a terminal that understands cursor movement (TERM is neither dumb nor absent).
bool CanPaint(int fd);
// The size of the terminal now, so that no signal is needed to follow a resize: every frame asks.
FrameSize SizeOf(int fd, bool color);
// What a frame needs beside the experiment: two questions to the head.
absl::StatusOr<LiveFacts> AskLiveFacts(HeadClient& client, Json experiment);

class LiveView {
 public:
  LiveView(HeadClient& client, int fd, const Invocation& invocation, std::string prefix);

  // Shows the experiment as `Wait` answered it, if it is time to.
  void Show(const Json& experiment);
  absl::Status ShowCluster();  // The cluster's screen; for terminals.
  bool paints() const { return paints_; }
  Millis hold() const;         // How long the next Wait may be held.
  void SayItQuits(bool quits) { quits_ = quits; }  // The frames say that q ends the screen.

 private:
  FrameSize Size() const;
  void Paint(std::vector<std::string> lines);
  void Print(const Json& experiment, bool over);

  HeadClient& client_;
  const int fd_;
  const bool color_, json_, paints_;
  const std::string prefix_;
  bool quits_ = false;
  Millis shown_at_ = 0;
  const Millis started_at_;
  std::vector<size_t> widths_;  // Of the lines of the frame that stands there.
  std::string line_, mark_;        // Printed last.
};

// Shows the experiment until it is terminal or `quit` says so, and returns it.
absl::StatusOr<Json> WatchExperiment(HeadClient& client, uint64_t id, LiveView& view,
                                     const std::function<bool()>& quit = nullptr);

}  // namespace rt
