#include "worker/link/log_sender.h"

#include <unistd.h>

#include "common/base/limits.h"
#include "common/run/files.h"
#include "worker/launch/shim_file.h"
#include "worker/link/own_log.h"
#include "worker/link/wire.h"
#include "worker/session/log_reader.h"

namespace rt::worker {
namespace {

constexpr size_t kJobsMax = 64;
constexpr useconds_t kLookUs = 25'000;  // How often a followed file is looked at.
constexpr size_t kPieceBytes = 256u << 10;
// After so many looks in vain an empty piece asks whether anybody still reads.
constexpr int kQuietLooks = 40;
constexpr char kNoLogFile[] =
    "this worker does not log to a file: its log is in the terminal where it was started, or in "
    "the journal of its machine (journalctl -u rt-worker)";

}  // namespace

LogSender::LogSender(std::shared_ptr<grpc::Channel> channel, Launcher& launcher)
    : stub_(v1::WorkerService::NewStub(channel)), launcher_(launcher) {}

LogSender::~LogSender() { Stop(); }

void LogSender::Stop() {
  stopping_ = true;
  std::map<uint64_t, std::unique_ptr<Job>> jobs;
  {
    std::lock_guard lock(mutex_);
    jobs.swap(jobs_);
  }
  for (auto& [id, job] : jobs) job->context.TryCancel();
  for (auto& [id, job] : jobs) job->thread.join();
}

void LogSender::Take(const v1::SyncReply& reply) {
  std::lock_guard lock(mutex_);
  if (stopping_ || reply.epoch() < epoch_) return;
  if (reply.epoch() > epoch_) {  // Another head counts anew.
    answered_.clear();
    version_ = 0;
  }
  epoch_ = reply.epoch();
  if (reply.version() >= version_) {
    version_ = reply.version();
    wanted_.clear();
    for (const v1::Desired& one : reply.desired()) wanted_.insert(FromWire(one.fence()));
  }
  for (auto at = jobs_.begin(); at != jobs_.end();) {
    if (!at->second->done) {
      ++at;
      continue;
    }
    at->second->thread.join();
    at = jobs_.erase(at);
  }
  for (const v1::LogRequest& request : reply.logs()) {
    if (answered_.contains(request.id()) || jobs_.contains(request.id())) continue;
    if (jobs_.size() >= kJobsMax) return;  // It stays listed.
    answered_.insert(request.id());
    auto& job = jobs_[request.id()] = std::make_unique<Job>();
    job->request = request;
    job->thread = std::thread([this, one = job.get()] {
      Send(*one);
      one->done = true;
    });
  }
}

void LogSender::Send(Job& job) {
  v1::Empty reply;
  auto writer = stub_->SendLog(&job.context, &reply);
  const bool daemon = job.request.daemon();
  if (daemon ? FollowDaemon(job, *writer) : Follow(job, *writer)) writer->WritesDone();
  writer->Finish();
}

bool LogSender::IsWanted(const Fence& fence) {
  std::lock_guard lock(mutex_);
  return wanted_.contains(fence);
}

// The reply that asks for a log may be the one that asks for its attempt: then nothing has been
// prepared yet, and the log is waited for as long as the head wants the attempt here.
std::string LogSender::AwaitLogs(const Fence& fence) {
  while (!stopping_) {
    const bool wanted = IsWanted(fence);  // Asked first: a short attempt may end in between.
    std::string directory = launcher_.LogsOf(fence);
    if (!directory.empty() || !wanted) return directory;
    ::usleep(kLookUs);
  }
  return "";
}

// False when the stream broke: the reader left, or the head did.
bool LogSender::Follow(Job& job, grpc::ClientWriter<v1::LogPiece>& writer) {
  const Fence fence = FromWire(job.request.fence());
  v1::LogPiece piece;
  piece.set_id(job.request.id());
  std::string directory = AwaitLogs(fence);
  const bool known_stream = job.request.stream() == "stdout" || job.request.stream() == "stderr";
  if (directory.empty() || !known_stream) {
    piece.set_error(known_stream ? "its node no longer has this output" : "no such stream");
    piece.set_end(true);
    return writer.Write(piece);
  }
  auto reader = std::make_unique<LogReader>(directory, job.request.stream());
  reader->Seek(job.request.offset());
  if (job.request.tail_lines() > 0) reader->SeekToTail(job.request.tail_lines());
  // An empty first piece attaches the stream before there is anything to say.
  piece.set_offset(reader->offset());
  if (!writer.Write(piece)) return false;
  for (int quiet = 0; !stopping_;) {
    // Asked before reading: rt-shim writes down the end after the last byte.
    const RunDir dir = launcher_.DirOf(fence);
    const bool ended = !Exists(dir.path) || ReadShimFile(dir.shim()).exit.has_value();
    if (std::string now = launcher_.LogsOf(fence); now != directory) {
      const uint64_t offset = reader->offset();
      directory = now;
      reader = std::make_unique<LogReader>(directory, job.request.stream());
      reader->Seek(offset);
    }
    std::string bytes = reader->Read(kPieceBytes);
    // Its directory may have moved while it was read: then nothing was found where it was.
    if (bytes.empty() && launcher_.LogsOf(fence) != directory) continue;
    piece.set_end(bytes.empty() && (ended || !job.request.follow()));
    piece.set_offset(reader->offset() - bytes.size());
    const bool nothing = bytes.empty() && !piece.end() && ++quiet < kQuietLooks;
    if (!nothing) {
      quiet = 0;
      piece.set_data(std::move(bytes));
      if (!writer.Write(piece)) return false;
      if (piece.end()) return true;
    } else {
      ::usleep(kLookUs);
    }
  }
  return false;
}

// Our own log, when standard error goes to a file; it has no end while we live.
bool LogSender::FollowDaemon(Job& job, grpc::ClientWriter<v1::LogPiece>& writer) {
  v1::LogPiece piece;
  piece.set_id(job.request.id());
  OwnLog log;
  if (!log.is_file()) {
    piece.set_error(kNoLogFile);
    piece.set_end(true);
    return writer.Write(piece);
  }
  uint64_t offset = job.request.offset();
  if (job.request.tail_lines() > 0) offset = log.OffsetOfTail(job.request.tail_lines());
  piece.set_offset(offset);
  if (!writer.Write(piece)) return false;  // Attaches the stream.
  for (int quiet = 0; !stopping_;) {
    std::string bytes = log.Read(offset, kPieceBytes);
    piece.set_end(bytes.empty() && !job.request.follow());
    piece.set_offset(offset);
    offset += bytes.size();
    const bool nothing = bytes.empty() && !piece.end() && ++quiet < kQuietLooks;
    if (nothing) {
      ::usleep(kLookUs);
      continue;
    }
    quiet = 0;
    piece.set_data(std::move(bytes));
    if (!writer.Write(piece)) return false;
    if (piece.end()) return true;
  }
  return false;
}

}  // namespace rt::worker
