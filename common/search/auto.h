// The search algorithm that chooses others: GP-BO while trials are few, together with CMA-ES when
// they are more, and CMA-ES for the rest, or TPE where many parameters have conditions; TPE where
// parameters are mostly categories, very many, or very many trials run at once; MOBSTER's model, or
// BOHB's, where trials are compared at rungs.
//
// Source: our own research (docs/search-quality.md has the figures). CMA-ES is told every result
// from the first on: one that begins with a hundred points of another algorithm around it makes no
// progress for as long again.
//
// What it chooses is a function of the space, of how many trials may run at once, and of a trial's
// number. AutoOptimizer is a cache, as those of the algorithms are. Equal to the bit on every
// machine; one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/search/cma.h"
#include "common/search/encoding.h"
#include "common/search/gp.h"
#include "common/search/mobster.h"
#include "common/search/model.h"
#include "common/search/observations.h"
#include "common/search/tpe.h"

namespace rt {

enum class AutoPart { kGp, kCma, kTpe, kMobster, kBohb };

// From trial number `from` on, `parts` take turns.
struct AutoPhase {
  uint64_t from = 0;
  std::vector<AutoPart> parts;
};

struct AutoChoice {
  std::vector<AutoPhase> phases;  // In order; the first begins at 0.
  std::string reason;             // Why these: "4 parameters, all of them numbers".

  AutoPart PartOf(uint64_t number) const;
};

struct AutoFacts {
  int64_t max_concurrent = 0;  // 0 is unbounded.
  bool has_rungs = false;      // The scheduler compares trials at rungs.
};
// One sentence without its full stop; of the phases that `trials` reach, if their number is known.
std::string TextOf(const AutoChoice& choice, std::optional<uint64_t> trials);

// The newest version of `auto`. Since 2 CMA-ES begins in the middle where it is alone; since 3
// MOBSTER's model stretches the best values; since 4 TPE is version 3, before that version 1;
// since 5 GP-BO is version 2, and begins the searches of conditional parameters.
inline constexpr uint32_t kAutoVersion = 5;

AutoChoice ChooseSearch(const Encoding& encoding, const AutoFacts& facts,
                        uint32_t version = kAutoVersion);

// The options of its TPE and of its GP-BO.
TpeOptions AutoTpeOptions(uint32_t version);
GpOptions AutoGpOptions(uint32_t version);

class AutoOptimizer {
 public:
  // `encoding` outlives it.
  AutoOptimizer(const Encoding& encoding, uint64_t seed, const AutoFacts& facts,
                uint32_t version = kAutoVersion);

  // The point of trial `number`, which `seen` does not hold, snapped. nullopt: given up; the next
  // call continues where this one was.
  std::optional<Point> Suggest(const Observations& seen, uint64_t number,
                               const GiveUp& give_up = {});
  // The expectations that came with the last point; nullopt: its algorithm has none.
  const std::optional<ModelBelief>& belief() const { return belief_; }

 private:
  const Encoding& encoding_;
  const uint64_t seed_;
  const uint32_t version_;
  const AutoChoice choice_;
  std::optional<GpOptimizer> gp_;  // Those that the choice needs.
  std::optional<CmaEs> cma_;
  std::optional<Mobster> mobster_;
  std::optional<ModelBelief> belief_;
};

}  // namespace rt
