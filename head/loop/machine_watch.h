// Says when something about machines has become durable, so that whoever makes and removes them
// (head/service/node_reconciler.h) need not poll for it. Told by the core thread; one listener.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "head/core/core.h"

namespace rt {

class MachineWatch {
 public:
  // `changed` is called on the core thread and must not block. Null: nobody listens any more; a
  // call that is under way has ended when this returns.
  void Listen(std::function<void()> changed);
  // To be run once the records are durable; null when none of them is about machines.
  std::function<void()> ChangeOf(const std::vector<Record>& records);

 private:
  std::mutex mutex_;
  std::function<void()> changed_;
};

}  // namespace rt
