#include "head/loop/machine_watch.h"

#include <algorithm>
#include <utility>

#include "head/core/pools.h"

namespace rt {

void MachineWatch::Listen(std::function<void()> changed) {
  std::lock_guard lock(mutex_);
  changed_ = std::move(changed);
}

std::function<void()> MachineWatch::ChangeOf(const std::vector<Record>& records) {
  if (std::none_of(records.begin(), records.end(), IsAboutMachines)) return nullptr;
  return [this] {
    std::lock_guard lock(mutex_);
    if (changed_) changed_();
  };
}

}  // namespace rt
