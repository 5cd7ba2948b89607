// The live screen of one experiment, or of the whole cluster: what the head says, as the lines of
// one frame. `rt submit`, `rt watch` and, through the bridge, Python's tune.run show these. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/base/json.h"

namespace rt {

struct LiveFacts {
  Json experiment;  // As `exp show`; null for the cluster's screen.
  Json status;      // As `status`.
  Json nodes;       // The items of `node list`.
};
struct FrameSize {
  size_t columns = 80;
  size_t rows = 24;  // The frame has at most one line less, so that its top never scrolls away.
  bool color = false;
  bool quits = false;  // The key q ends the screen, which says so where there is room.
};

// Lines without a newline, none wider than the screen; escape sequences only when coloured.
std::vector<std::string> RenderExperimentFrame(const LiveFacts& facts, const FrameSize& size);
std::vector<std::string> RenderClusterFrame(const LiveFacts& facts, const FrameSize& size);
// The same in one line, for pipes: "experiment 3 RUNNING  12/48 trials, 2 running; best …".
std::string ProgressLine(const Json& experiment);
// What is worth a line at once, whatever else was coalesced: the state, and that something failed.
std::string ProgressMark(const Json& experiment);

// What a terminal must be sent to show `lines` where the frame before stood, the cursor being below
// it. `over`: rows of the frame before, 0 at first.
std::string PaintText(const std::vector<std::string>& lines, size_t over);
// The characters of each line, and the rows that such lines take on a screen of so many columns: a
// terminal that was made narrower has wrapped them.
std::vector<size_t> WidthsOf(const std::vector<std::string>& lines);
size_t RowsAt(const std::vector<size_t>& widths, size_t columns);

}  // namespace rt
