#include "cli/live_view.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "cli/client/local_cluster.h"
#include "cli/client/nouns.h"
#include "common/base/status.h"
#include "common/run/clock.h"
#include "common/run/files.h"

namespace rt {
namespace {

constexpr Millis kFrameEvery = 250;
constexpr Millis kPaintedHold = 500;
constexpr Millis kPlainHold = 10'000;
// On a pipe, changes are printed less and less often the longer the work runs.
constexpr Millis kLineEveryMin = 1'000, kLineEveryMax = 30'000;
constexpr Millis kLineShare = 20;

// A reader of the output that has gone must not end the experiment.
void Write(int fd, std::string_view text) { WriteAll(fd, text).IgnoreError(); }

}  // namespace

bool CanPaint(int fd) {
  const char* kind = std::getenv("TERM");
  return isatty(fd) == 1 && kind != nullptr && *kind != '\0' && std::string(kind) != "dumb";
}

FrameSize SizeOf(int fd, bool color) {
  FrameSize size{.color = color};
  winsize window{};
  if (ioctl(fd, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 && window.ws_row > 0) {
    size.columns = window.ws_col;
    size.rows = window.ws_row;
  }
  return size;
}

absl::StatusOr<LiveFacts> AskLiveFacts(HeadClient& client, Json experiment) {
  LiveFacts facts{.experiment = std::move(experiment)};
  RT_ASSIGN_OR_RETURN(facts.status, client.Ask<v1::ClusterService>(
                                        &v1::ClusterService::Stub::Status, v1::Empty()));
  RT_ASSIGN_OR_RETURN(Json nodes, ListNodes(client));
  if (Json* items = nodes.Find("items")) facts.nodes = std::move(*items);
  return facts;
}

LiveView::LiveView(HeadClient& client, int fd, const Invocation& invocation, std::string prefix)
    : client_(client), fd_(fd), color_(fd == 1 ? invocation.color_out : invocation.color),
      json_(fd == 1 && invocation.output == Output::kJson),
      paints_(invocation.output == Output::kTable && CanPaint(fd)), prefix_(std::move(prefix)),
      started_at_(SteadyClock()) {}

Millis LiveView::hold() const { return paints_ ? kPaintedHold : kPlainHold; }

void LiveView::Show(const Json& experiment) {
  bool over = IsTerminal(experiment.GetString("state"));
  if (!paints_) return Print(experiment, over);
  if (!over && shown_at_ != 0 && SteadyClock() - shown_at_ < kFrameEvery) return;
  absl::StatusOr<LiveFacts> facts = AskLiveFacts(client_, experiment);
  if (!facts.ok()) return;  // The next Wait says what is wrong.
  Paint(RenderExperimentFrame(*facts, Size()));
}

absl::Status LiveView::ShowCluster() {
  RT_ASSIGN_OR_RETURN(LiveFacts facts, AskLiveFacts(client_, Json()));
  Paint(RenderClusterFrame(facts, Size()));
  return absl::OkStatus();
}

FrameSize LiveView::Size() const {
  FrameSize size = SizeOf(fd_, color_);
  size.quits = quits_;
  return size;
}

void LiveView::Paint(std::vector<std::string> lines) {
  Write(fd_, PaintText(lines, RowsAt(widths_, SizeOf(fd_, color_).columns)));
  widths_ = WidthsOf(lines);
  shown_at_ = SteadyClock();
}

void LiveView::Print(const Json& experiment, bool over) {
  std::string line = json_ ? experiment.Dump() : prefix_ + ProgressLine(experiment);
  std::string mark = ProgressMark(experiment);
  Millis now = SteadyClock();
  Millis pause = std::clamp((now - started_at_) / kLineShare, kLineEveryMin, kLineEveryMax);
  bool due = mark != mark_ || now - shown_at_ >= pause || over;
  if (!due || line == line_) return;
  Write(fd_, line + "\n");
  line_ = std::move(line);
  mark_ = std::move(mark);
  shown_at_ = now;
}

absl::StatusOr<Json> WatchExperiment(HeadClient& client, uint64_t id, LiveView& view,
                                     const std::function<bool()>& quit) {
  std::string seen;
  while (true) {
    v1::WaitRequest request;
    request.set_experiment(id);
    request.set_seen(seen);
    request.set_hold_ms(view.hold());
    RT_ASSIGN_OR_RETURN(Json reply,
                        client.Ask<v1::ExperimentService>(&v1::ExperimentService::Stub::Wait,
                                                          request, view.hold()));
    if (const Json* version = reply.Find("version"))
      seen = version->is_string() ? version->AsString() : version->Dump();
    view.Show(reply);
    if (IsTerminal(reply.GetString("state")) || (quit && quit())) return reply;
  }
}

}  // namespace rt
