// A cloud: the fake cloud, the edge between it and the head (which derives calls from what is
// durable, as NodeReconciler does), and the machines, whose workers boot some time after they were
// made. Calls fail by class, answers are lost before and after their effect, lists lag, and
// machines vanish. In every third simulation it has one pool. In the mode of the cloud (`sim
// --cloud`) it is always there, with three pools and more faults: zones run out, lists fail,
// machines never boot, boot late, or boot and never join, and are taken away with notice. There,
// people request resources, too. It draws from streams of its own, so that a seed without a cloud
// runs as it always did.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "head/core/pools.h"
#include "tests/fakes/fake_cloud.h"
#include "tests/sim/auditor.h"
#include "tests/sim/head_host.h"
#include "tests/sim/sim.h"
#include "tests/sim/worker_host.h"

namespace rt::sim {

class CloudHost {
 public:
  // From the last end until idle machines are gone.
  static constexpr Millis kSettles = 400'000;
  // With machines that never boot, which are given up after 15 minutes.
  static constexpr Millis kSettlesWithNeverBooted = 1'300'000;

  CloudHost(Sim& sim, HeadHost& head, const Auditor& auditor, uint64_t seed, bool is_cloud);
  void Start();
  void Strike();
  // What is there is what the pool keeps, and the head knows it.
  bool IsSettled() const;
  std::string Describe() const;

 private:
  bool Chance(double probability) { return !sim_.calm && rng_.Chance(probability); }
  Millis Between(Millis least, Millis most) {
    return least + static_cast<Millis>(rng_.Below(static_cast<uint64_t>(most - least + 1)));
  }
  void LookLater();
  void Look();
  void ReadLog();
  void DrawPools();
  void DrawFaults();
  void DrawZones();
  void BootLater(WorkerHost& worker, const std::string& id);
  void Vanish(const std::string& id);
  void GiveNotice(WorkerHost& worker, const std::string& id);
  void CheckDemand();
  void RequestResources(std::vector<RequestedBundles> bundles);
  // A call to the cloud and back: the answer is lost when the head dies meanwhile.
  void Call(std::function<std::function<void()>()> call);
  void Post(Input input, std::function<void(bool)> settled);
  void List();
  void Create(const CreateWish& wish);
  void Terminate(const std::vector<TerminateWish>& wishes);
  void Compare();  // Machines that are there run workers, others do not.

  Sim& sim_;
  HeadHost& head_;
  const Auditor& auditor_;
  Rng rng_;
  // Of their own, so that they move no other draw.
  Rng requests_, joins_;
  const bool is_cloud_;  // The simulation is about the cloud.
  bool is_on_ = false;
  std::map<std::string, PoolSpec> pools_;
  fakes::FakeCloud cloud_;
  std::map<uint64_t, std::unique_ptr<WorkerHost>>
      workers_;  // By machine; all that there ever were.
  // The edge. It forgets all of this with its head.
  Core durable_;
  uint64_t epoch_ = 0;
  uint64_t life_ = 0;
  Millis awake_since_ = 0;  // By the head's time.
  bool is_listing_ = false, is_terminating_ = false;
  std::set<std::string> creating_, unclear_;  // Pools.
  bool has_listed_ = false;
  Millis listed_at_ = 0;
  std::map<std::string, Millis> unmet_since_;  // By pool, of what CheckDemand looks at.
};

}  // namespace rt::sim
