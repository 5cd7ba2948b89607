// The control loop: what is observed goes up, what is desired comes down. One Sync is held by the
// head; when something changes, a newer one is sent beside it, which releases the older. Redials
// with growing pauses; a reply older than one that was taken is dropped. Owns one thread.
#pragma once

#include <grpcpp/channel.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "rt/v1/worker.grpc.pb.h"
#include "worker/link/log_sender.h"
#include "worker/loop/worker_loop.h"
#include "worker/notice/notice_source.h"

namespace rt::worker {

// Who says why the daemon can take no work; of several the first is reported.
enum class FaultSource { kLoop, kSocket };

class SyncLoop {
 public:
  SyncLoop(std::shared_ptr<grpc::Channel> channel, WorkerLoop& loop, LogSender& logs,
           v1::Inventory inventory, uint64_t incarnation);
  ~SyncLoop();
  // Before Start. What to do when the head ignores this daemon for one with the number `newest`,
  // which is silent: it returns a greater number, under which this daemon continues.
  using Renumber = std::function<absl::StatusOr<uint64_t>(uint64_t newest)>;
  void OnSuperseded(Renumber renumber) { renumber_ = std::move(renumber); }
  // Before Start. Asked at each call: why the node can take no work now; empty: it can. SetFault
  // takes precedence.
  void AskFault(std::function<std::string()> ask) { ask_fault_ = std::move(ask); }
  // When no head has answered for `disconnect_stop`, what runs is ended (HeadAway); 0: never.
  // `head_epoch`: of the newest head that this node has heard; older ones are not believed.
  void Start(Millis disconnect_stop, uint64_t head_epoch);
  void Stop();
  void SyncNow();
  // The node has changed: the head hears of it at once.
  void SetInventory(v1::Inventory inventory);
  // The node was given notice, or the notice was withdrawn; the head hears of it at once.
  void SetNotice(std::optional<Notice> notice);
  // The node should drain because of its gpus: why. A notice takes precedence. Empty: it need not.
  void SetGpuDrain(std::string why);
  // Before Start. `ask` is called at each Sync, and returns what attempts have measured and the
  // head has not recorded yet.
  void AskProfiles(std::function<std::vector<ProfileReport>()> ask) {
    ask_profiles_ = std::move(ask);
  }
  // Before Start. `ask` is called at each Sync, and returns the newest sample of each gpu.
  void AskGpuSamples(std::function<std::vector<GpuSample>()> ask) { ask_samples_ = std::move(ask); }
  // Before Start. Told at each reply: quarantines of gpus that are over, by uuid and number.
  using ClearGpu = std::function<void(const std::string& uuid, uint64_t quarantine)>;
  void OnClearedGpu(ClearGpu clear) { clear_gpu_ = std::move(clear); }
  // Before Start. Told at each reply: gpus that a probe found at fault, by uuid, and what it found.
  using FaultGpu = std::function<void(const std::string& uuid, const std::string& what)>;
  void OnFaultyGpu(FaultGpu fault) { fault_gpu_ = std::move(fault); }
  // Why the node can take no work now; empty: it can.
  // Of each source the newest; empty: none any more.
  void SetFault(FaultSource source, std::string why);
  // The last Sync: this daemon stops, and one is back within `away_for`. Returns once the head has
  // heard it, or no head has within `wait`. A node that was given notice announces nothing.
  void Leave(Millis away_for, Millis wait);
  Millis Silence();  // Since the last answer of a head, or our start.
  void SyncSoon();  // Within kSyncDelayMax, together with what else changes until then.

 private:
  struct Call;
  void Run();
  bool MaySend() const;
  void StopWithoutHead();
  void StopWithoutIdentity(const grpc::Status& status);  // The head does not know this node.
  void Send();
  void OnDone(const std::shared_ptr<Call>& call, const grpc::Status& status);
  void CatchUp(const v1::SyncReply& reply);
  void NoteLater(const v1::SyncReply& reply);  // Daemon of this node.
  void TakeNumber();
  bool IsNews(const v1::SyncReply& reply) const;
  void Take(const v1::SyncReply& reply);
  static bool TakeBody(const std::string& bytes, const Fence& fence, LaunchBody& body);

  std::unique_ptr<v1::WorkerService::Stub> stub_;
  WorkerLoop& loop_;
  LogSender& logs_;
  Renumber renumber_;
  std::function<std::string()> ask_fault_;
  std::function<std::vector<GpuSample>()> ask_samples_;
  std::function<std::vector<ProfileReport>()> ask_profiles_;
  ClearGpu clear_gpu_;
  FaultGpu fault_gpu_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t incarnation_;
  bool stopping_ = false;
  v1::Inventory inventory_;
  std::optional<Notice> notice_;
  std::string gpu_drain_;
  std::map<FaultSource, std::string> faults_;
  Millis away_for_ = 0;  // Announced from here on; 0: it stays.
  bool is_away_told_ = false, is_away_lost_ = false;  // A head has heard it, or none will.
  bool dirty_ = true;
  Millis soon_at_ = 0;  // Then it becomes dirty; 0: nothing waits.
  std::vector<std::shared_ptr<Call>> calls_;
  uint64_t next_seq_ = 1;
  uint64_t seen_epoch_ = 0;
  uint64_t seen_version_ = 0;
  uint64_t seen_seq_ = 0;  // The head's newest record by the last reply.
  Millis hold_ = 0;
  Millis pause_ = 0;        // Before the next try; 0 after a success.
  Millis not_before_ = 0;
  bool reachable_ = true;
  struct Later {               // The daemon for which the head ignores this one.
    uint64_t incarnation = 0;  // 0: there is none.
    uint64_t seq = 0;
    Millis moved_at = 0;  // When its last call was seen.
  } later_;
  Millis disconnect_stop_ = 0;
  Millis answered_at_ = 0;  // The last time that a head answered, or our start.
  bool told_away_ = false;  // Since then: what runs has been ended.
};

}  // namespace rt::worker
