#include "head/journal/packer.h"

#include <sys/resource.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/status.h"
#include "head/journal/chain.h"

namespace rt {
namespace {

// Many small slots are worth a pack as well: a reader pays for each.
constexpr size_t kSlotsMax = 500;
constexpr size_t kRecordsPerPack = 50'000;
constexpr int kNice = 10;  // Nobody waits for it.

}  // namespace

Packer::~Packer() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void Packer::Consider(uint64_t shipped_seq) {
  if ((bytes_ < pack_bytes_ && slots_ < kSlotsMax) || running_) return;
  if (thread_.joinable()) thread_.join();
  bytes_ = 0;
  slots_ = 0;
  running_ = true;
  thread_ = std::thread([this, shipped_seq] {
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);  // Of this thread.
    absl::Status status = Pack(shipped_seq);
    if (!status.ok()) {
      RT_LOG(kWarning) << "packing the shipped journal: " << MessageOf(status);
    }
    running_ = false;
  });
}

absl::Status Packer::Pack(uint64_t until_seq) {
  RT_ASSIGN_OR_RETURN(uint64_t from, log_.PackedUntil());
  while (from <= until_seq && !stopping_) {
    LogSegment pack{.writer = writer_, .hash_before = ChainStart()};
    if (from > 1) {
      RT_ASSIGN_OR_RETURN(pack.hash_before, local_.HashAt(from - 1));
    }
    const size_t most = std::min<uint64_t>(kRecordsPerPack, until_seq - from + 1);
    RT_ASSIGN_OR_RETURN(pack.batch, local_.ReadBatch(from - 1, most));
    const std::string bytes = EncodeSegment(pack);
    RT_RETURN_IF_ERROR(log_.WritePack(from, bytes));
    RT_ASSIGN_OR_RETURN(from, log_.PackedUntil());
  }
  RT_ASSIGN_OR_RETURN(size_t removed, log_.RemoveOldSlots(kept_for_));
  if (removed > 0) {
    RT_LOG(kInfo) << "the shipped journal: " << removed << " old slots are in packs and removed";
  }
  return absl::OkStatus();
}

}  // namespace rt
