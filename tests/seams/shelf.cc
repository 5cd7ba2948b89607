#include "tests/seams/shelf.h"

#include <algorithm>
#include <map>

#include "common/base/status.h"

namespace rt::seams {
namespace {

class Shelf final : public NodeProvider {
 public:
  Shelf(std::vector<std::string> names, std::string pool) : pool_(std::move(pool)) {
    for (std::string& name : names) tags_[std::move(name)] = 0;
  }

  absl::StatusOr<std::vector<MadeMachine>> Create(const CreateCall& call) override {
    if (call.pool != pool_)
      return MakeProviderError(ProviderError::kBadConfiguration, "no pool '" + call.pool + "'");
    std::vector<MadeMachine> made;
    for (const WantedMachine& wanted : call.machines) {
      auto found = Find(wanted.number);
      if (found == tags_.end()) found = Find(0);
      if (found == tags_.end()) break;
      found->second = wanted.number;
      made.push_back({wanted.number, found->first, pool_});
    }
    if (made.empty()) return MakeProviderError(ProviderError::kCapacity, "all machines are on");
    return made;
  }
  absl::StatusOr<std::vector<MadeMachine>> List() override {
    std::vector<MadeMachine> machines;
    for (const auto& [name, number] : tags_)
      if (number != 0) machines.push_back({number, name, pool_});
    std::sort(machines.begin(), machines.end(),
              [](const MadeMachine& a, const MadeMachine& b) { return a.number < b.number; });
    return machines;
  }
  absl::Status Terminate(const std::vector<std::string>& ids) override {
    for (const std::string& id : ids)
      if (const auto found = tags_.find(id); found != tags_.end()) found->second = 0;
    return absl::OkStatus();
  }
  Millis list_lag() const override { return 0; }
  void EndAll() override {
    for (auto& [name, number] : tags_) number = 0;
  }
  bool Disowns(const std::string&) const override { return false; }

 private:
  std::map<std::string, uint64_t>::iterator Find(uint64_t number) {
    return std::find_if(tags_.begin(), tags_.end(),
                        [number](const auto& tag) { return tag.second == number; });
  }
  const std::string pool_;
  std::map<std::string, uint64_t> tags_;  // The machine's number; 0: it is off.
};

class ShelfSetup final : public ProviderSetup {
 public:
  ShelfSetup(std::vector<std::string> names, std::string pool)
      : names_(std::move(names)), pool_(std::move(pool)) {}
  absl::StatusOr<std::vector<Resources>> NodeSizes() const override {
    return std::vector<Resources>{};
  }
  Resources SizeOf(const PoolSpec& pool) const override { return pool.each; }
  bool SharesAccount() const override { return false; }
  absl::StatusOr<std::unique_ptr<NodeProvider>> Start(const std::vector<PoolSpec>&,
                                                      ProviderContext) const override {
    return std::make_unique<Shelf>(names_, pool_);
  }

 private:
  const std::vector<std::string> names_;
  const std::string pool_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ProviderSetup>> ReadShelf(const Json& provider) {
  const Json* machines = provider.Find("machines");
  if (machines == nullptr || !machines->is_array())
    return Invalid("provider/machines must be a list of names");
  std::vector<std::string> names;
  for (const Json& machine : machines->array()) names.push_back(machine.AsString());
  return std::make_unique<ShelfSetup>(std::move(names), provider.GetString("pool"));
}

}  // namespace rt::seams
