#include "worker/launch/freezer.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/clock.h"
#include "common/run/failpoint.h"
#include "common/run/files.h"
#include "worker/launch/quoted.h"
#include "worker/limits/memory_watch.h"

namespace rt::worker {
namespace {

// A process in an uninterruptible wait stops at its end.
constexpr Millis kStopMost = 30'000;
constexpr int kLookUs = 2'000;
constexpr size_t kAnswerMax = 64 << 10;  // Of what rt-gpu-suspend prints.

const char* NameOf(FreezeStep step) {
  switch (step) {
    case FreezeStep::kNone:
    case FreezeStep::kSaving: return "none";
    case FreezeStep::kFreezing: return "freezing";
    case FreezeStep::kFrozen: return "frozen";
    case FreezeStep::kThawing: return "thawing";
  }
  return "none";
}

FreezeStep StepOf(const std::string& name) {
  for (FreezeStep step : {FreezeStep::kFreezing, FreezeStep::kFrozen, FreezeStep::kThawing})
    if (name == NameOf(step)) return step;
  return FreezeStep::kNone;
}

std::string ProcPath(pid_t pid, const char* file) {
  return "/proc/" + std::to_string(pid) + "/" + file;
}

// Whether it has opened the driver's library.
bool MayUseGpus(pid_t pid) {
  const absl::StatusOr<std::string> maps = ReadFile(ProcPath(pid, "maps"), 64 << 20);
  return maps.ok() && maps->find("/libcuda.so") != std::string::npos;
}

// Stopped, or a zombie, or gone.
bool IsStopped(pid_t pid) {
  const absl::StatusOr<std::string> text = ReadFile(ProcPath(pid, "stat"), 64 << 10);
  if (!text.ok()) return true;
  const size_t name_end = text->rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text->size()) return true;
  const char state = (*text)[name_end + 2];
  return state == 'T' || state == 't' || state == 'Z' || state == 'X';
}

bool HasToken(pid_t pid, const std::string& token) {
  const absl::StatusOr<std::string> text = ReadFile(ProcPath(pid, "environ"), 1 << 20);
  if (!text.ok()) return false;
  const std::string entry = "RT_TOKEN=" + token + '\0';
  return text->starts_with(entry) || text->find('\0' + entry) != std::string::npos;
}

// Empty when the program has ended. A process that has left its tree and its session is known by
// its token.
std::set<pid_t> TreeOf(const FreezeJob& job) {
  if (!IsAlive(job.program)) return {};
  const ProcessTable table = ProcessTable::Read();
  std::set<pid_t> tree = table.TreeOf(job.program.pid);
  if (job.token.empty()) return tree;
  for (pid_t pid : table.pids())
    if (!tree.contains(pid) && HasToken(pid, job.token)) tree.insert(pid);
  return tree;
}

// Also what they start meanwhile. Why it did not work; "": all are stopped.
std::string StopTree(const FreezeJob& job) {
  const Millis until = SteadyClock() + kStopMost;
  for (;;) {
    const std::set<pid_t> tree = TreeOf(job);
    if (tree.empty()) return "its process has ended";
    bool is_all = true;
    for (pid_t pid : tree) {
      if (IsStopped(pid)) continue;
      is_all = false;
      ::kill(pid, SIGSTOP);
    }
    if (is_all) return "";
    if (SteadyClock() > until) return "its processes did not stop";
    ::usleep(kLookUs);
  }
}

void ContinueTree(const FreezeJob& job) {
  for (pid_t pid : TreeOf(job)) ::kill(pid, SIGCONT);
}

Bytes AvailableMemory() {
  constexpr std::string_view kAvailable = "MemAvailable:";
  const absl::StatusOr<std::string> text = ReadFile("/proc/meminfo", 64 << 10);
  const size_t at = text.ok() ? text->find(kAvailable) : std::string::npos;
  if (at == std::string::npos) return 0;
  return static_cast<Bytes>(std::atoll(text->c_str() + at + kAvailable.size())) << 10;
}

// Why the host cannot have the gpu's memory; "": it can, as far as that can be known before.
std::string WhyNoMemory(const FreezeJob& job) {
  if (!job.has_gpus || job.gpu_memory == 0) return "";
  const std::string needs = "the " + BytesText(job.gpu_memory) + " that it used on its gpus ";
  if (const Bytes free = AvailableMemory(); job.gpu_memory > free)
    return needs + "do not fit the " + BytesText(free) + " of free memory of its machine";
  if (job.memory_limit == 0) return "";
  const ProcessTable table = ProcessTable::Read();
  const Bytes used = table.ResidentOf(table.TreeOf(job.program.pid));
  if (used + job.gpu_memory > job.memory_limit)
    return needs + "do not fit the " + BytesText(job.memory_limit) +
           " of memory that it asked for, of which it uses " + BytesText(used);
  return "";
}

// A program whose processes are not its children, such as one in a container of another daemon,
// cannot be stopped. "": nobody holds memory of its gpus.
std::string WhyUsed(const std::vector<GpuProcess>& users) {
  if (users.empty()) return "";
  const GpuProcess& first = users.front();
  return "none of its processes has opened the driver, but process " + std::to_string(first.pid) +
         (first.name.empty() ? "" : " (" + first.name + ")") +
         " holds memory of its gpus: it may run in a container";
}

}  // namespace

FreezeNote ReadFreezeNote(const std::string& path) {
  FreezeNote note;
  const absl::StatusOr<std::string> text = ReadFile(path, 64 << 10);
  if (!text.ok() || !text->ends_with('\n')) return note;
  std::istringstream words(*text);
  std::string step;
  words >> step >> note.round >> note.since >> note.total;
  if (!words) return {};
  note.step = StepOf(step);
  for (pid_t pid; words >> pid;) note.gpu_pids.insert(pid);
  return note;
}

absl::Status WriteFreezeNote(const std::string& path, const FreezeNote& note) {
  std::string text = std::string(NameOf(note.step)) + " " + std::to_string(note.round) + " " +
                     std::to_string(note.since) + " " + std::to_string(note.total);
  for (pid_t pid : note.gpu_pids) text += " " + std::to_string(pid);
  return WriteFileAtomic(path, text + "\n", {.sync = false});
}

Freezer::Answer Freezer::Ask(const std::string& action, pid_t pid) const {
  std::vector<std::string> argv = {bin_dir_ + "/rt-gpu-suspend", action};
  if (pid != 0) argv.push_back(std::to_string(pid));
  const absl::StatusOr<ProgramResult> done = RunProgram({.argv = argv}, "", ask_most_, kAnswerMax);
  if (!done.ok())
    return {.why = MessageOf(done.status()), .is_hung = absl::IsDeadlineExceeded(done.status())};
  const std::string exit = "rt-gpu-suspend: " + rt::ToString(done->exit);
  const absl::StatusOr<Json> told = Json::Parse(Trim(done->output));
  if (!told.ok() || !told->is_object()) return {.why = exit + ", " + Quoted(Trim(done->output))};
  const std::string error = told->GetString("error");
  if (!error.empty()) return {.why = Quoted(error)};
  if (!done->exit.ok()) return {.why = exit};
  return {.state = Excerpt(told->GetString("state"))};
}

std::string Freezer::Do(const std::string& action, pid_t pid, const std::string& state) const {
  const Answer after = Ask(action, pid);
  if (!after.why.empty() || after.state == state) return after.why;
  return "after rt-gpu-suspend " + action + " process " + std::to_string(pid) + " is " +
         (after.state.empty() ? "in no state" : after.state);
}

FreezeEnd Freezer::MoveToHost(const FreezeJob& job, FreezeNote& note) const {
  std::set<pid_t> users = TreeOf(job);
  std::erase_if(users, [](pid_t pid) { return !MayUseGpus(pid); });
  if (users.empty()) return {.why = WhyUsed(job.gpu_users)};
  if (const Answer can = Ask("check", 0); !can.why.empty()) return {.why = can.why};
  std::string unknown;
  std::set<pid_t> known;
  for (pid_t pid : users) {
    if (note.gpu_pids.contains(pid)) continue;
    const Answer told = Ask("state", pid);
    if (told.is_hung) return {.why = told.why};
    // The driver knows nothing of one that has opened its library and has nothing on a gpu.
    if (told.state.empty()) unknown = told.why;
    else known.insert(pid);
  }
  note.gpu_pids.merge(known);
  // Others would get gpus whose memory is in use.
  if (note.gpu_pids.empty()) return {.why = "the driver knows none of its processes: " + unknown};
  if (const absl::Status noted = WriteFreezeNote(job.note, note); !noted.ok())
    return {.why = MessageOf(noted)};
  for (pid_t pid : note.gpu_pids) {
    const Answer now = Ask("state", pid);
    if (!now.why.empty()) return {.why = now.why};
    if (now.state == "suspended") continue;
    if (std::string why = Do("suspend", pid, "suspended"); !why.empty())
      return {.why = std::move(why)};
  }
  return {};
}

FreezeEnd Freezer::MoveBack(const FreezeJob& job, FreezeNote& note) const {
  const std::set<pid_t> tree = TreeOf(job);
  for (pid_t pid : note.gpu_pids) {
    if (!tree.contains(pid)) continue;
    if (std::string why = Do("resume", pid, "running"); !why.empty())
      return {.why = std::move(why), .is_broken = true};
  }
  note.gpu_pids.clear();
  return {};
}

FreezeEnd Freezer::Undo(const FreezeJob& job, FreezeNote& note, const std::string& why) const {
  ContinueTree(job);
  FreezeEnd back = MoveBack(job, note);
  if (!back.why.empty())
    return {.why = why + "; and it could not be resumed: " + back.why, .is_broken = true};
  note.step = FreezeStep::kNone;
  note.since = 0;
  const absl::Status noted = WriteFreezeNote(job.note, note);
  return {.why = why, .is_broken = !noted.ok()};
}

FreezeEnd Freezer::Freeze(const FreezeJob& job) const {
  FreezeNote note = ReadFreezeNote(job.note);
  const bool is_frozen = note.step == FreezeStep::kFrozen;
  note.round = job.round;
  if (!is_frozen) {
    if (job.has_gpus && !job.gpu_hang.empty() && note.step == FreezeStep::kNone)
      return {.why = job.gpu_hang};
    if (std::string why = WhyNoMemory(job); !why.empty() && note.step == FreezeStep::kNone)
      return {.why = why};
    note.step = FreezeStep::kFreezing;
  }
  // Where the round cannot be noted, a later daemon is asked for it again.
  const absl::Status begun = WriteFreezeNote(job.note, note);
  if (is_frozen) return {};
  if (!begun.ok()) return {.why = MessageOf(begun)};
  ReachFailpoint("worker.freeze.after_note");
  if (job.has_gpus) {
    const FreezeEnd moved = MoveToHost(job, note);
    if (!moved.why.empty()) return Undo(job, note, moved.why);
  }
  ReachFailpoint("worker.freeze.before_stop");
  if (const std::string why = StopTree(job); !why.empty()) return Undo(job, note, why);
  ReachFailpoint("worker.freeze.after_stop");
  note.step = FreezeStep::kFrozen;
  note.since = WallClock();
  const absl::Status noted = WriteFreezeNote(job.note, note);
  return noted.ok() ? FreezeEnd{} : Undo(job, note, MessageOf(noted));
}

FreezeEnd Freezer::Thaw(const FreezeJob& job) const {
  FreezeNote note = ReadFreezeNote(job.note);
  note.step = FreezeStep::kThawing;
  if (note.since != 0) note.total += std::max<Millis>(0, WallClock() - note.since);
  note.since = 0;
  const std::string cannot = "it could not continue after it was frozen: ";
  if (const absl::Status noted = WriteFreezeNote(job.note, note); !noted.ok())
    return {.why = cannot + MessageOf(noted), .is_broken = true};
  ReachFailpoint("worker.thaw.after_note");
  ContinueTree(job);
  ReachFailpoint("worker.thaw.before_resume");
  const FreezeEnd back = MoveBack(job, note);
  if (!back.why.empty()) return {.why = cannot + back.why, .is_broken = true};
  note.step = FreezeStep::kNone;
  const absl::Status noted = WriteFreezeNote(job.note, note);
  return noted.ok() ? FreezeEnd{} : FreezeEnd{.why = cannot + MessageOf(noted), .is_broken = true};
}

}  // namespace rt::worker
