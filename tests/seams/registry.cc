// The algorithms of this test program: those of the project and one more of each kind. This takes
// the place of common/algorithms/registry.cc.
#include "common/algorithms/registry.h"

#include "common/decide/asha.h"
#include "common/decide/fifo.h"
#include "common/search/basic.h"
#include "tests/seams/patience.h"
#include "tests/seams/sweep.h"

namespace rt {

const std::vector<const Searcher*>& Searchers() {
  static const std::vector<const Searcher*> all = {&BasicSearch(), &Sweep()};
  return all;
}

const std::vector<const Scheduler*>& Schedulers() {
  static const std::vector<const Scheduler*> all = {&Fifo(), &Asha(), &Patience()};
  return all;
}

}  // namespace rt
