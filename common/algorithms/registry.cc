// To add an algorithm: one line here (docs/checklists.md).
#include "common/algorithms/registry.h"

#include "common/decide/asha.h"
#include "common/decide/asha_promotion.h"
#include "common/decide/fifo.h"
#include "common/decide/hyperband.h"
#include "common/decide/median.h"
#include "common/decide/pasha.h"
#include "common/decide/pb2.h"
#include "common/decide/pbt.h"
#include "common/decide/pbt_replay.h"
#include "common/search/auto_search.h"
#include "common/search/basic.h"
#include "common/search/bohb_search.h"
#include "common/search/cma_search.h"
#include "common/search/dehb_search.h"
#include "common/search/gp_search.h"
#include "common/search/mobster_search.h"
#include "common/search/tpe_search.h"

namespace rt {

const std::vector<const Searcher*>& Searchers() {
  static const std::vector<const Searcher*> all = {
      &BasicSearch(),
      &TpeSearch(),
      &TpeSearchWithoutSmoothing(),
      &TpeSearchWithoutBranches(),
      &CmaSearch(),
      &CmaSearchFromSobol(),
      &GpSearch(),
      &GpSearchWithoutNoise(),
      &AutoSearch(),
      &AutoSearchWithOldGp(),
      &AutoSearchWithOldTpe(),
      &AutoSearchUnstretched(),
      &AutoSearchWithoutRungs(),
      &BohbSearch(),
      &DehbSearch(),
      &MobsterSearch(),
      &MobsterSearchUnstretched(),
  };
  return all;
}

const std::vector<const Scheduler*>& Schedulers() {
  static const std::vector<const Scheduler*> all = {
      &Fifo(),  &Asha(), &AshaPromotion(), &HyperBand(), &MedianStopping(),
      &Pasha(), &Pb2(),  &Pbt(),           &PbtReplay(), &PercentileStopping(),
  };
  return all;
}

}  // namespace rt
