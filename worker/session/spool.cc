#include "worker/session/spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/run/failpoint.h"

namespace rt::worker {
namespace {

// Acknowledged bytes that may stay in the file before it is written anew.
constexpr Bytes kSlackBytes = 1 << 20;
// More programs of one trial than report at the same moment.
constexpr size_t kKeyedRows = 64;

std::string LineOf(const SpoolRow& row) { return ToJson(row).Dump() + "\n"; }

Bytes SizeOf(const SpoolRow& row) { return static_cast<Bytes>(row.metrics.size() + 128); }

absl::Status WriteAll(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, "write " + path);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

Json ToJson(const SpoolRow& row) {
  Json json = Json::MakeObject({{"s", row.seq},
                                {"c", row.client_seq},
                                {"o", row.stdout_offset},
                                {"i", row.iteration},
                                {"t", row.time_total_s},
                                {"at", row.timestamp}});
  if (!row.metrics.empty()) json.Set("m", row.metrics);
  if (row.with_checkpoint) json.Set("k", true);
  if (row.collective) json.Set("g", true);
  if (!row.key.empty()) json.Set("y", row.key);
  return json;
}

SpoolRow SpoolRowFrom(const Json& json) {
  return {static_cast<uint64_t>(json.GetInt("s")),
          static_cast<uint64_t>(json.GetInt("c")),
          static_cast<uint64_t>(json.GetInt("o")),
          json.GetDouble("i"),
          json.GetDouble("t"),
          json.GetInt("at"),
          json.GetString("m"),
          json.GetBool("k"),
          json.GetBool("g"),
          json.GetString("y")};
}

absl::StatusOr<std::unique_ptr<Spool>> Spool::Open(const std::string& path) {
  std::unique_ptr<Spool> spool(new Spool(path));
  RT_RETURN_IF_ERROR(spool->Load());
  return spool;
}

Spool::~Spool() {
  if (fd_ >= 0) ::close(fd_);
}

absl::Status Spool::Load() {
  std::ifstream file(path_, std::ios::binary);
  if (!file) return absl::OkStatus();
  std::ostringstream whole;
  whole << file.rdbuf();
  const std::string text = whole.str();
  for (size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    auto line = Json::Parse(std::string_view(text).substr(at, end - at));
    if (!line.ok() || !line->is_object()) break;
    SpoolRow row = SpoolRowFrom(*line);
    Count(row);
    if (row.metrics.empty()) continue;  // Counters, or a key: acknowledged.
    pending_bytes_ += SizeOf(row);
    rows_.push_back(std::move(row));
  }
  return absl::OkStatus();
}

void Spool::Count(const SpoolRow& row) {
  last_.seq = row.seq;
  last_.iteration = row.iteration;
  last_.client_seq = std::max(last_.client_seq, row.client_seq);
  last_.stdout_offset = std::max(last_.stdout_offset, row.stdout_offset);
  if (row.key.empty()) return;
  keyed_.push_back(row);
  keyed_.back().metrics.clear();
  if (keyed_.size() > kKeyedRows) keyed_.pop_front();
}

std::optional<SpoolRow> Spool::Find(const std::string& key) const {
  std::lock_guard lock(mutex_);
  for (const SpoolRow& row : keyed_)
    if (!key.empty() && row.key == key) return row;
  return std::nullopt;
}

// The file may be there, with an empty line: the first row is written over it.
absl::Status Spool::Create() {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  return fd_ < 0 ? ErrnoStatus(errno, "open " + path_) : absl::OkStatus();
}

absl::Status Spool::Rewrite() {
  const uint64_t pending = rows_.empty() ? UINT64_MAX : rows_.front().seq;
  std::string text;
  for (const SpoolRow& row : keyed_) {
    if (row.seq >= pending) break;
    text += LineOf(row);
  }
  text += Json::MakeObject({{"s", last_.seq},
                            {"c", last_.client_seq},
                            {"o", last_.stdout_offset},
                            {"i", last_.iteration}})
              .Dump() +
          "\n";
  for (const SpoolRow& row : rows_) text += LineOf(row);
  const std::string tmp = path_ + ".tmp";
  int fd = ::open(tmp.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoStatus(errno, "open " + tmp);
  absl::Status written = WriteAll(fd, text, tmp);
  if (written.ok() && ::rename(tmp.c_str(), path_.c_str()) != 0) {
    written = ErrnoStatus(errno, "rename " + tmp);
  }
  if (!written.ok()) {
    ::close(fd);
    return written;
  }
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
  file_bytes_ = static_cast<Bytes>(text.size());
  return absl::OkStatus();
}

absl::StatusOr<SpoolRow> Spool::Append(SpoolRow row) {
  std::lock_guard lock(mutex_);
  if (closed_) return absl::UnavailableError("the attempt is over");
  if (fd_ < 0) RT_RETURN_IF_ERROR(last_.seq == 0 ? Create() : Rewrite());
  row.seq = last_.seq + 1;
  const std::string line = LineOf(row);
  absl::Status written = FailAt("worker.spool.before_append");
  if (written.ok()) written = WriteAll(fd_, line, path_);
  if (!written.ok()) {
    // Half a line must not stay in front of the next one.
    if (::ftruncate(fd_, file_bytes_) == 0) ::lseek(fd_, file_bytes_, SEEK_SET);
    return written;
  }
  file_bytes_ += static_cast<Bytes>(line.size());
  pending_bytes_ += SizeOf(row);
  Count(row);
  rows_.push_back(row);
  ReachFailpoint("worker.spool.after_append");
  return row;
}

std::vector<SpoolRow> Spool::Pending(size_t rows_max, size_t bytes_max) const {
  std::lock_guard lock(mutex_);
  std::vector<SpoolRow> pending;
  size_t bytes = 0;
  for (const SpoolRow& row : rows_) {
    bytes += static_cast<size_t>(SizeOf(row));
    if (pending.size() >= rows_max || (!pending.empty() && bytes > bytes_max)) break;
    pending.push_back(row);
  }
  return pending;
}

void Spool::Acknowledge(uint64_t seq) {
  std::lock_guard lock(mutex_);
  while (!rows_.empty() && rows_.front().seq <= seq) {
    pending_bytes_ -= SizeOf(rows_.front());
    rows_.pop_front();
  }
  if (!closed_ && file_bytes_ > 2 * pending_bytes_ + kSlackBytes) {
    absl::Status ignored = Rewrite();  // The longer file says the same.
    (void)ignored;
  }
}

void Spool::Abandon() { Acknowledge(UINT64_MAX); }

void Spool::Close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool Spool::IsFull() const {
  std::lock_guard lock(mutex_);
  return pending_bytes_ >= limits::kSpoolBytesMax;
}
bool Spool::HasPending() const {
  std::lock_guard lock(mutex_);
  return !rows_.empty();
}
uint64_t Spool::last_seq() const {
  std::lock_guard lock(mutex_);
  return last_.seq;
}
uint64_t Spool::acked_seq() const {
  std::lock_guard lock(mutex_);
  return rows_.empty() ? last_.seq : rows_.front().seq - 1;
}
uint64_t Spool::last_client_seq() const {
  std::lock_guard lock(mutex_);
  return last_.client_seq;
}
uint64_t Spool::stdout_offset() const {
  std::lock_guard lock(mutex_);
  return last_.stdout_offset;
}
double Spool::last_iteration() const {
  std::lock_guard lock(mutex_);
  return last_.iteration;
}

}  // namespace rt::worker
