#include "head/journal/shipped_log.h"

#include <charconv>

#include "common/base/status.h"
#include "common/run/failpoint.h"
#include "head/journal/chain.h"
#include "head/journal/snapshot_bytes.h"

namespace rt {
namespace {

const std::string kLog = "log/", kPack = "pack/", kSnap = "snap/";
constexpr size_t kPage = 1'000;

std::string Key(const std::string& prefix, uint64_t seq) { return prefix + SeqName(seq); }

uint64_t SeqOf(const std::string& key) {
  const size_t at = key.rfind('/') + 1;
  uint64_t seq = 0;
  std::from_chars(key.data() + at, key.data() + key.size(), seq);
  return seq;
}

}  // namespace

absl::StatusOr<std::optional<LogSegment>> ShippedLog::Get(const std::string& key) {
  absl::StatusOr<std::string> bytes = store_.Get(key);
  if (absl::IsNotFound(bytes.status())) return std::optional<LogSegment>();
  if (!bytes.ok()) return Annotate(bytes.status(), key);
  absl::StatusOr<LogSegment> segment = DecodeSegment(*bytes);
  if (!segment.ok()) return Annotate(segment.status(), key);
  if (segment->seq_from() == SeqOf(key)) return std::optional(*std::move(segment));
  return absl::DataLossError(ToAbsl(key + ": it holds other records than its name says"));
}

absl::StatusOr<std::string> ShippedLog::LastKey(const std::string& prefix,
                                                const std::string& after, uint64_t seq) {
  std::string last, from = after;
  const std::string beyond = Key(prefix, seq);
  while (true) {
    RT_ASSIGN_OR_RETURN(std::vector<ObjectInfo> page, store_.List(prefix, from, kPage));
    for (const ObjectInfo& info : page) {
      if (info.key > beyond) return last;
      last = info.key;
    }
    if (page.size() < kPage) return last;
    from = last;
  }
}

absl::StatusOr<uint64_t> ShippedLog::PackedUntil() {
  RT_ASSIGN_OR_RETURN(std::string last, LastKey(kPack, "", UINT64_MAX));
  if (last.empty()) return 1;
  RT_ASSIGN_OR_RETURN(std::optional<LogSegment> pack, Get(last));
  if (!pack.has_value()) return absl::DataLossError(ToAbsl(last + " is missing"));
  return pack->seq_to() + 1;
}

absl::StatusOr<ShippedLog::End> ShippedLog::FindEnd() {
  RT_ASSIGN_OR_RETURN(std::string pack, LastKey(kPack, "", UINT64_MAX));
  // The slots before the last pack's first record are in packs, or in this one.
  const std::string after = pack.empty() ? "" : Key(kLog, SeqOf(pack) - 1);
  RT_ASSIGN_OR_RETURN(std::string last, LastKey(kLog, after, UINT64_MAX));
  if (last.empty()) last = pack;
  if (last.empty()) return End{.hash = ChainStart()};
  RT_ASSIGN_OR_RETURN(std::optional<LogSegment> segment, Get(last));
  if (!segment.has_value()) return absl::DataLossError(ToAbsl(last + " is missing"));
  return End{segment->seq_to(), segment->epoch, segment->hash_after(), last};
}

absl::StatusOr<std::optional<LogSegment>> ShippedLog::Next(uint64_t seq) {
  return Get(Key(kLog, seq));
}

absl::StatusOr<std::optional<LogSegment>> ShippedLog::Find(uint64_t seq) {
  RT_ASSIGN_OR_RETURN(std::string key, LastKey(kPack, "", seq));
  if (!key.empty()) {
    RT_ASSIGN_OR_RETURN(std::optional<LogSegment> pack, Get(key));
    if (pack.has_value() && pack->seq_to() >= seq) return pack;
  }
  const std::string after = key.empty() ? "" : Key(kLog, SeqOf(key) - 1);
  RT_ASSIGN_OR_RETURN(key, LastKey(kLog, after, seq));
  if (key.empty()) return std::optional<LogSegment>();
  RT_ASSIGN_OR_RETURN(std::optional<LogSegment> segment, Get(key));
  if (segment.has_value() && segment->seq_to() < seq) segment.reset();
  return segment;
}

absl::Status ShippedLog::Append(uint64_t seq, const std::string& bytes) {
  const std::string key = Key(kLog, seq);
  RT_RETURN_IF_ERROR(FailAt("head.ship.before_put"));
  absl::Status status = store_.PutIfAbsent(key, bytes);
  if (status.ok()) status = FailAt("head.ship.after_put");
  if (!absl::IsAlreadyExists(status)) return Annotate(status, key);
  // Ours, of a try whose answer was lost, or another head's.
  absl::StatusOr<std::string> found = store_.Get(key);
  if (!found.ok()) return Annotate(found.status(), key);
  if (*found == bytes) return absl::OkStatus();
  return absl::AbortedError(ToAbsl("another head has written " + key + " of the shipped log"));
}

absl::Status ShippedLog::WriteSnapshot(uint64_t seq, const std::string& sealed) {
  RT_RETURN_IF_ERROR(FailAt("head.ship.before_snapshot"));
  RT_RETURN_IF_ERROR(store_.Put(Key(kSnap, seq), sealed));
  RT_ASSIGN_OR_RETURN(std::vector<uint64_t> seqs, Snapshots());
  for (size_t i = kSnapshotsKept; i < seqs.size(); ++i)
    RT_RETURN_IF_ERROR(store_.Delete(Key(kSnap, seqs[i])));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint64_t>> ShippedLog::Snapshots() {
  RT_ASSIGN_OR_RETURN(std::vector<ObjectInfo> page, store_.List(kSnap, "", kPage));
  std::vector<uint64_t> seqs;
  for (auto info = page.rbegin(); info != page.rend(); ++info) seqs.push_back(SeqOf(info->key));
  return seqs;
}

absl::StatusOr<std::string> ShippedLog::ReadSnapshot(uint64_t seq) {
  return store_.Get(Key(kSnap, seq));
}

absl::Status ShippedLog::WritePack(uint64_t seq, const std::string& bytes) {
  absl::Status status = store_.PutIfAbsent(Key(kPack, seq), bytes);
  // Another head may have packed the same records, up to here or further.
  return absl::IsAlreadyExists(status) ? absl::OkStatus() : status;
}

absl::StatusOr<size_t> ShippedLog::RemoveOldSlots(Millis kept_for) {
  RT_ASSIGN_OR_RETURN(uint64_t packed_until, PackedUntil());
  size_t removed = 0;
  std::string after;
  std::optional<ObjectInfo> before;  // The last slot stays, so each waits for its successor.
  RT_ASSIGN_OR_RETURN(End end, FindEnd());
  RT_ASSIGN_OR_RETURN(std::optional<ObjectInfo> newest, store_.Look(end.slot));
  while (newest.has_value()) {
    RT_ASSIGN_OR_RETURN(std::vector<ObjectInfo> page, store_.List(kLog, after, kPage));
    for (const ObjectInfo& info : page) {
      // A successor's first record is where its predecessor's last one was.
      const bool is_old = before.has_value() && SeqOf(info.key) <= packed_until &&
                          newest->changed_at - before->changed_at > kept_for;
      if (is_old) {
        RT_RETURN_IF_ERROR(store_.Delete(before->key));
        ++removed;
      }
      before = info;
    }
    if (page.size() < kPage) break;
    after = page.back().key;
  }
  return removed;
}

}  // namespace rt
