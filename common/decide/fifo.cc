#include "common/decide/fifo.h"

namespace rt {
namespace {

class FifoScheduler final : public Scheduler {
 public:
  const AlgorithmTable& table() const override {
    static const AlgorithmTable table{.kind = AlgorithmKind::kScheduler,
                                      .name = "fifo",
                                      .meaning = "Every trial runs to its own end",
                                      .options = {}};
    return table;
  }
};

}  // namespace

const Scheduler& Fifo() {
  static const FifoScheduler scheduler;
  return scheduler;
}

}  // namespace rt
