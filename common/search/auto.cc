#include "common/search/auto.h"

#include <algorithm>
#include <utility>

#include "common/search/bohb.h"
#include "common/search/mixture.h"

namespace rt {
namespace {

// More parameters than this are too many for a process over the whole space.
constexpr size_t kGpParametersMax = 20;
// With more trials at once than this a model that learns one result at a time has no advantage.
constexpr int64_t kTrialsAtOnceMax = 32;
// GP-BO alone, together with CMA-ES or TPE, and one of these alone.
constexpr uint64_t kTogetherFrom = 50, kOtherFrom = 250;

const char* NameOf(AutoPart part) {
  switch (part) {
    case AutoPart::kGp: return "gp";
    case AutoPart::kCma: return "cmaes";
    case AutoPart::kTpe: return "tpe";
    case AutoPart::kMobster: return "mobster";
    case AutoPart::kBohb: return "bohb";
  }
  return "";
}

// "gp", or "gp and cmaes in turn".
std::string NamesOf(const AutoPhase& phase) {
  std::vector<AutoPart> parts = phase.parts;
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  std::string text = NameOf(parts.front());
  for (size_t i = 1; i < parts.size(); ++i) text += std::string(" and ") + NameOf(parts[i]);
  return parts.size() == 1 ? text : text + " in turn";
}

std::string Counted(size_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

// Why fewer than half of the parameters are numbers that every configuration has.
std::string FewNumbers(const Encoding& encoding, size_t numbers) {
  const size_t all = encoding.axes().size();
  const size_t categories = all - Mixture::NumericAxes(encoding).size();
  const size_t conditional = all - categories - numbers;
  const std::string of_all = " of " + Counted(all, "parameter");
  const std::string some = conditional == 1 ? " is a number that only some configurations have"
                                            : " are numbers that only some configurations have";
  if (categories == 0) return std::to_string(conditional) + of_all + some;
  const std::string text = std::to_string(categories) + of_all +
                           (categories == 1 ? " is a category" : " are categories");
  return conditional == 0 ? text : text + ", and " + std::to_string(conditional) + some;
}

// GP-BO first, and more and more of the other.
std::vector<AutoPhase> BeginningWithGp(AutoPart other) {
  return {{0, {AutoPart::kGp}},
          {kTogetherFrom, {AutoPart::kGp, AutoPart::kGp, other}},
          {kOtherFrom, {other}}};
}

}  // namespace

AutoPart AutoChoice::PartOf(uint64_t number) const {
  const AutoPhase* phase = &phases.front();
  for (const AutoPhase& each : phases)
    if (each.from <= number) phase = &each;
  return phase->parts[number % phase->parts.size()];
}

AutoChoice ChooseSearch(const Encoding& encoding, const AutoFacts& facts, uint32_t version) {
  const size_t all = encoding.axes().size(), numbers = Mixture::SteadyNumericAxes(encoding).size();
  const AutoPart other = facts.has_rungs ? AutoPart::kBohb : AutoPart::kTpe;
  const std::vector<AutoPhase> tpe = {{0, {other}}};
  if (all == 0) return {tpe, "no parameter varies"};
  if (2 * numbers < all) {
    const bool is_for_gp = version >= 5 && !facts.has_rungs && all <= kGpParametersMax &&
                           2 * Mixture::NumericAxes(encoding).size() >= all &&
                           facts.max_concurrent <= kTrialsAtOnceMax;
    return {is_for_gp ? BeginningWithGp(AutoPart::kTpe) : tpe, FewNumbers(encoding, numbers)};
  }
  if (numbers > kCmaAxesMax) return {tpe, Counted(all, "parameter")};
  if (facts.max_concurrent > kTrialsAtOnceMax)
    return {tpe, std::to_string(facts.max_concurrent) + " trials may run at once"};
  std::string reason = Counted(all, "parameter");
  if (all > 1 && numbers == all) reason += ", all of them numbers";
  else if (numbers < all) reason += ", " + std::to_string(numbers) + " of them numbers";
  if (facts.has_rungs) {
    const AutoPart part = all > kGpParametersMax ? AutoPart::kBohb : AutoPart::kMobster;
    return {{{0, {part}}}, reason + ", and trials are compared at rungs"};
  }
  if (all > kGpParametersMax) return {{{0, {AutoPart::kCma}}}, std::move(reason)};
  return {BeginningWithGp(AutoPart::kCma), std::move(reason)};
}

std::string TextOf(const AutoChoice& choice, std::optional<uint64_t> trials) {
  std::string text;
  for (const AutoPhase& phase : choice.phases) {
    if (phase.from > 0 && phase.from >= trials.value_or(UINT64_MAX)) break;
    if (phase.from > 0) text += ", from trial " + std::to_string(phase.from) + " on ";
    text += NamesOf(phase);
  }
  return text + ": " + choice.reason;
}

TpeOptions AutoTpeOptions(uint32_t version) { return TpeDefaults(version >= 4 ? 3 : 1); }
GpOptions AutoGpOptions(uint32_t version) { return GpDefaults(version >= 5 ? 2 : 1); }

AutoOptimizer::AutoOptimizer(const Encoding& encoding, uint64_t seed, const AutoFacts& facts,
                             uint32_t version)
    : encoding_(encoding), seed_(seed), version_(version),
      choice_(ChooseSearch(encoding, facts, version)) {
  const bool is_alone = choice_.phases.size() == 1;
  for (const AutoPhase& phase : choice_.phases) {
    for (const AutoPart part : phase.parts) {
      if (part == AutoPart::kGp && !gp_.has_value())
        gp_.emplace(encoding, seed, AutoGpOptions(version));
      if (part == AutoPart::kCma && !cma_.has_value())
        cma_.emplace(encoding, seed, CmaOptions{.begins_in_middle = version >= 2 && is_alone});
      if (part == AutoPart::kMobster && !mobster_.has_value())
        mobster_.emplace(encoding, seed, MobsterOptions{.stretches_best = version >= 3});
    }
  }
}

std::optional<Point> AutoOptimizer::Suggest(const Observations& seen, uint64_t number,
                                            const GiveUp& give_up) {
  belief_.reset();
  switch (choice_.PartOf(number)) {
    case AutoPart::kGp:
      if (std::optional<GpAnswer> answer = gp_->Suggest(seen, number, give_up)) {
        belief_ = answer->belief;
        return std::move(answer->point);
      }
      return std::nullopt;
    case AutoPart::kCma:
      if (std::optional<CmaAnswer> answer = cma_->Suggest(seen, number, give_up))
        return std::move(answer->point);
      return std::nullopt;
    case AutoPart::kTpe:
      if (std::optional<TpeAnswer> answer =
              SuggestTpe(encoding_, seen, seed_, number, AutoTpeOptions(version_), give_up))
        return std::move(answer->point);
      return std::nullopt;
    case AutoPart::kMobster:
      if (std::optional<MobsterAnswer> answer = mobster_->Suggest(seen, number, give_up)) {
        belief_ = answer->belief;
        return std::move(answer->point);
      }
      return std::nullopt;
    case AutoPart::kBohb:
      if (std::optional<BohbAnswer> answer =
              SuggestBohb(encoding_, seen, seed_, number, {}, give_up))
        return std::move(answer->point);
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace rt
