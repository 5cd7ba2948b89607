// Finding an algorithm by name and version, and the tables that common/spec parses by.
#include "common/algorithms/registry.h"

namespace rt {
namespace {

template <class Algorithm>
const Algorithm& FindNamed(const std::vector<const Algorithm*>& all, const AlgorithmSpec& spec) {
  const Algorithm* newest = nullptr;
  for (const Algorithm* one : all) {
    const AlgorithmTable& table = one->table();
    if (table.name != spec.name) continue;
    if (table.version == spec.version) return *one;
    if (newest == nullptr || table.version > newest->table().version) newest = one;
  }
  return newest == nullptr ? *all.front() : *newest;
}

template <class Algorithm>
std::vector<const AlgorithmTable*> TablesOf(const std::vector<const Algorithm*>& all) {
  std::vector<const AlgorithmTable*> tables;
  for (const Algorithm* one : all) tables.push_back(&one->table());
  return tables;
}

}  // namespace

const Searcher& SearcherOf(const ExperimentSpec& spec) {
  return FindNamed(Searchers(), spec.search);
}

const Scheduler& SchedulerOf(const ExperimentSpec& spec) {
  return FindNamed(Schedulers(), spec.scheduler);
}

const std::vector<const AlgorithmTable*>& AlgorithmTables(AlgorithmKind kind) {
  static const auto search = TablesOf(Searchers());
  static const auto scheduler = TablesOf(Schedulers());
  return kind == AlgorithmKind::kSearch ? search : scheduler;
}

}  // namespace rt
