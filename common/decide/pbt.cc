#include "common/decide/pbt.h"

#include <algorithm>
#include <cmath>

#include "common/base/strings.h"
#include "common/spec/quantum.h"

namespace rt {
namespace {

constexpr char kMutations[] = "hyperparam_mutations";
// Explore steps are drawn from a stream of their own.
constexpr uint64_t kExploreStream = 0x6578706c6f726521;
// Points at which a program waits for the decision; later ones are decided while it trains.
constexpr size_t kWaitsMax = 512;
// A double holds every whole number up to this one.
constexpr double kWholeMax = 9'007'199'254'740'992.0;

double At(const ExperimentSpec& spec, const char* option) {
  return spec.scheduler.options.GetDouble(option);
}

// The one variable of a space that is nothing else; null: it is a map of several.
std::optional<Domain> DomainOf(const Json& mutation) {
  const absl::StatusOr<Space> space = ParseSpace(Json::MakeObject({{"x", mutation}}), "");
  const bool is_one =
      space.ok() && space->variables.size() == 1 && space->variables.front().path.size() == 1;
  if (!is_one) return std::nullopt;
  return space->variables.front().domain;
}

bool IsSame(const Json& a, const Json& b) {
  return a == b || (a.is_number() && b.is_number() && a.AsDouble() == b.AsDouble());
}

Json OfList(const std::vector<Json>& values, const Json* now, const ExploreOptions& options,
            Rng& rng) {
  const bool resamples = rng.Uniform() < options.resample_probability;
  const auto known = std::find_if(values.begin(), values.end(), [&](const Json& one) {
    return now != nullptr && IsSame(one, *now);
  });
  if (resamples || known == values.end()) return values[rng.Below(values.size())];
  const auto at = known - values.begin(), last = static_cast<std::ptrdiff_t>(values.size()) - 1;
  const std::ptrdiff_t next = rng.Below(2) == 0 ? at - 1 : at + 1;
  return values[static_cast<size_t>(std::clamp<std::ptrdiff_t>(next, 0, last))];
}

bool HasWholeValues(Domain::Kind kind) {
  return kind == Domain::Kind::kRandInt || kind == Domain::Kind::kQRandInt ||
         kind == Domain::Kind::kLogRandInt || kind == Domain::Kind::kQLogRandInt;
}

bool IsQuantised(Domain::Kind kind) {
  return kind == Domain::Kind::kQUniform || kind == Domain::Kind::kQLogUniform ||
         kind == Domain::Kind::kQNormal || kind == Domain::Kind::kQRandInt ||
         kind == Domain::Kind::kQLogRandInt;
}

// The nearest multiple of q that is in the domain, whose bounds `value` keeps.
double Quantised(const Domain& domain, double value) {
  double k = std::nearbyint(value / domain.q);
  if (domain.kind != Domain::Kind::kQNormal) {
    if (QuantumValue(k, domain.q) < domain.lower) k += 1;
    if (QuantumValue(k, domain.q) > domain.upper) k -= 1;
  }
  return QuantumValue(k, domain.q);
}

Json OfDomain(const Domain& domain, const Json* now, const ExploreOptions& options, Rng& rng) {
  using Kind = Domain::Kind;
  if (domain.kind == Kind::kChoice) return OfList(domain.values, now, options, rng);
  const bool resamples = rng.Uniform() < options.resample_probability;
  const bool is_finite = now != nullptr && now->is_number() && std::isfinite(now->AsDouble());
  if (resamples || !is_finite) return options.draw(domain, rng);
  const double factor = rng.Below(2) == 0 ? options.increase_factor : options.decrease_factor;
  double value = now->AsDouble() * factor;
  if (domain.kind != Kind::kNormal && domain.kind != Kind::kQNormal) {
    const bool is_open = domain.kind == Kind::kRandInt || domain.kind == Kind::kLogRandInt;
    value = std::clamp(value, domain.lower, is_open ? domain.upper - 1 : domain.upper);
  }
  if (IsQuantised(domain.kind)) value = Quantised(domain, value);
  const bool is_whole = HasWholeValues(domain.kind) || now->is_int();
  if (!is_whole) return Json(value);
  return Json(static_cast<int64_t>(std::clamp(value, -kWholeMax, kWholeMax)));
}

// The newest multiple of the interval by `t`: the same product as that of LimitsOf.
double BegunBy(double interval, double t) {
  const double count = std::floor(t / interval);
  return (count + 1) * interval <= t ? (count + 1) * interval : count * interval;
}

AlgorithmTable MakePbtTable() {
  using Type = AlgorithmOption::Type;
  AlgorithmTable table{
      .kind = AlgorithmKind::kScheduler,
      .name = "pbt",
      .version = 1,
      .meaning =
          "Population based training: bad trials take checkpoints of good ones, and mutate "
          "their configurations",
      .options = PopulationOptions(),
      .needs_metric = true,
      .changes_params = true,
      .driver_may_explore = true};
  for (AlgorithmOption& option : std::vector<AlgorithmOption>{
           {.name = kMutations,
         .type = Type::kMutations,
         .default_value = Json::MakeObject(),
         .meaning = "For each parameter that is mutated its values in order, or its domain"},
           {.name = "resample_probability",
           .default_value = 0.25,
           .meaning = "How often a parameter is drawn anew instead of changed",
           .lower = 0,
           .upper = 1},
           {.name = "increase_factor",
           .default_value = 1.2,
           .meaning = "A number is multiplied by this, or",
           .lower = 0,
           .is_open = true},
           {.name = "decrease_factor",
           .default_value = 0.8,
           .meaning = "by this",
           .lower = 0,
           .is_open = true},
           {.name = "synch",
           .type = Type::kFlag,
           .default_value = false,
           .meaning = "Whether trials wait for each other at their milestones, and are compared "
                      "together"}})
    table.options.push_back(std::move(option));
  return table;
}

bool IsSynchronous(const ExperimentSpec& spec) {
  return spec.scheduler.options.GetBool("synch") && spec.TrialsTotal().has_value();
}

// The paused trials, the least advanced first.
std::vector<uint32_t> InTurn(const SearchReview& review) {
  std::vector<PausedTrial> paused;
  for (const PausedTrial& trial : review.paused)
    if (!trial.is_live) paused.push_back(trial);
  std::stable_sort(paused.begin(), paused.end(), [](const PausedTrial& a, const PausedTrial& b) {
    return a.milestone < b.milestone;
  });
  std::vector<uint32_t> numbers;
  for (const PausedTrial& trial : paused) numbers.push_back(trial.number);
  return numbers;
}

bool HaveAllArrived(const SearchReview& review) {
  return !review.others_come && !review.population.empty() &&
         std::all_of(review.population.begin(), review.population.end(),
                     [](const PopulationMember& member) { return member.is_paused; });
}

// A member of the lowest quantile, and the one whose checkpoint it is to take.
struct Pair {
  const PopulationMember* parent = nullptr;
  Rng rng;  // The explore step continues with it.
};
// Nobody is paired where the parent has no checkpoint yet.
std::optional<Pair> PairFor(const ExperimentSpec& spec, const SearchReview& review,
                            uint32_t trial) {
  std::vector<const PopulationMember*> scored;  // The worst first.
  for (const PopulationMember& member : review.population)
    if (!std::isnan(member.score)) scored.push_back(&member);
  const double sign = spec.mode == Mode::kMax ? 1 : -1;
  std::stable_sort(scored.begin(), scored.end(),
                   [&](const auto* a, const auto* b) { return sign * a->score < sign * b->score; });
  const size_t size = QuantileSize(scored.size(), At(spec, "quantile_fraction"));
  const auto lowest = scored.begin() + static_cast<std::ptrdiff_t>(size);
  const auto own = std::find_if(scored.begin(), lowest, [&](const PopulationMember* member) {
    return member->number == trial;
  });
  if (own == lowest) return std::nullopt;
  Rng rng(review.seed ^ kExploreStream, (uint64_t{trial} << 32) + (*own)->comparisons);
  const PopulationMember* parent =
      *(scored.end() - 1 - static_cast<std::ptrdiff_t>(rng.Below(size)));
  if (parent->checkpoint == 0) return std::nullopt;
  return Pair{parent, rng};
}

class PbtScheduler final : public PopulationScheduler {
 public:
  const AlgorithmTable& table() const override {
    static const AlgorithmTable table = MakePbtTable();
    return table;
  }
};

}  // namespace

std::vector<AlgorithmOption> PopulationOptions() {
  using Type = AlgorithmOption::Type;
  return {{.name = "time_attr",
           .type = Type::kMetricName,
           .default_value = "time_total_s",
           .meaning = "The reported value in whose units the other options are"},
          {.name = "perturbation_interval",
           .default_value = 60.0,
           .meaning = "A trial is compared with the others once in each interval of this length",
           .lower = 0,
           .is_open = true},
          {.name = "burn_in_period",
           .default_value = 0.0,
           .meaning = "No trial is compared before this time",
           .lower = 0},
          {.name = "quantile_fraction",
           .default_value = 0.25,
           .meaning = "The part of the trials that is replaced, and the part that replaces them",
           .lower = 0,
           .upper = 0.5}};
}

TrialLimits PopulationScheduler::LimitsOf(const ExperimentSpec& spec, uint32_t) const {
  TrialLimits limits{.time_attr = spec.scheduler.options.GetString("time_attr")};
  const double interval = At(spec, "perturbation_interval");
  for (size_t i = 1; i <= kWaitsMax; ++i)
    if (const double at = interval * static_cast<double>(i); at >= At(spec, "burn_in_period"))
      limits.milestones.push_back(at);
  return limits;
}

RowVerdict PopulationScheduler::OnRow(const ExperimentSpec& spec, const ScheduledTrial& trial,
                                      const RowView& row) const {
  const std::optional<double> t = RowValue(row, trial.limits.time_attr);
  const std::optional<double> value = RowValue(row, spec.metric);
  if (!t || !value || !std::isfinite(*t) || *t < At(spec, "burn_in_period")) return {};
  const double begun = BegunBy(At(spec, "perturbation_interval"), *t);
  const bool is_known = !trial.recorded.empty() && *trial.recorded.rbegin() >= begun;
  if (begun <= 0 || is_known) return {};
  return {.milestone = begun, .value = *value};
}

// A trial that cannot be resumed where it is paused would begin again: it continues.
TrialVerdict PopulationScheduler::AtMilestone(const ExperimentSpec& spec, const RungValues& rung,
                                              double) const {
  const std::string where = "at " + FormatDouble(rung.milestone) + ", until ";
  if (!rung.may_save) return {};
  if (IsSynchronous(spec))
    return {TrialVerdict::Action::kPause, where + "all trials have come to their milestones"};
  if (!rung.others_queue) return {};
  return {TrialVerdict::Action::kPause, where + "the trials behind it have had their turn"};
}

bool PopulationScheduler::compares_population(const ExperimentSpec& spec) const {
  return IsSynchronous(spec);
}

ReviewVerdict PopulationScheduler::Review(const ExperimentSpec& spec,
                                          const SearchReview& review) const {
  ReviewVerdict verdict;
  const std::vector<uint32_t> turn = InTurn(review);
  if (IsSynchronous(spec)) {
    if (!HaveAllArrived(review)) return verdict;
    verdict.resumed = turn;
    for (uint32_t number : turn) Exploit(spec, review, number, verdict);
    return verdict;
  }
  if (!review.others_queue && !turn.empty()) verdict.resumed = {turn.front()};
  if (review.recorded) Exploit(spec, review, *review.recorded, verdict);
  return verdict;
}

std::optional<uint32_t> PopulationScheduler::ParentOf(const ExperimentSpec& spec,
                                                      const SearchReview& review) const {
  const std::optional<Pair> pair = PairFor(spec, review, *review.recorded);
  return pair ? std::optional<uint32_t>(pair->parent->number) : std::nullopt;
}

void PopulationScheduler::Exploit(const ExperimentSpec& spec, const SearchReview& review,
                                  uint32_t trial, ReviewVerdict& verdict) const {
  if (explores_on_lane()) return;
  std::optional<Pair> pair = PairFor(spec, review, trial);
  if (!pair) return;
  const absl::StatusOr<Json> params = Json::Parse(*pair->parent->params);
  if (!params.ok()) return;
  const ExploreOptions options{.resample_probability = At(spec, "resample_probability"),
                               .increase_factor = At(spec, "increase_factor"),
                               .decrease_factor = At(spec, "decrease_factor"),
                               .draw = review.draw};
  const Json& mutations = *spec.scheduler.options.Find(kMutations);
  verdict.clones.push_back({.trial = trial,
                            .from = pair->parent->number,
                            .checkpoint = pair->parent->checkpoint,
                            .params = Explore(*params, mutations, options, pair->rng)});
}

const Scheduler& Pbt() {
  static const PbtScheduler scheduler;
  return scheduler;
}

size_t QuantileSize(size_t scored, double fraction) {
  if (scored <= 1) return 0;
  const auto wanted = static_cast<size_t>(std::ceil(static_cast<double>(scored) * fraction));
  return std::min(wanted, scored / 2);
}

Json Explore(Json params, const Json& mutations, const ExploreOptions& options, Rng& rng) {
  for (const auto& [name, mutation] : mutations.object()) {
    const Json* now = params.Find(name);
    if (mutation.is_array()) {
      params.Set(name, OfList(mutation.array(), now, options, rng));
    } else if (const std::optional<Domain> domain = DomainOf(mutation)) {
      params.Set(name, OfDomain(*domain, now, options, rng));
    } else {
      Json inner = now != nullptr && now->is_object() ? *now : Json::MakeObject();
      params.Set(name, Explore(std::move(inner), mutation, options, rng));
    }
  }
  return params;
}

}  // namespace rt
