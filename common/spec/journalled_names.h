// The names that format 1 gives to the values of the specs' enums. They are never changed: journals
// hold them. See journalled_spec.h.
#pragma once

#include <map>
#include <string>

#include "common/spec/experiment_spec.h"

namespace rt {

inline const std::map<Domain::Kind, std::string>& KindNames() {
  using Kind = Domain::Kind;
  static const std::map<Kind, std::string> names = {
      {Kind::kUniform, "uniform"},       {Kind::kQUniform, "quniform"},
      {Kind::kLogUniform, "loguniform"}, {Kind::kQLogUniform, "qloguniform"},
      {Kind::kNormal, "randn"},          {Kind::kQNormal, "qrandn"},
      {Kind::kRandInt, "randint"},       {Kind::kQRandInt, "qrandint"},
      {Kind::kLogRandInt, "lograndint"}, {Kind::kQLogRandInt, "qlograndint"},
      {Kind::kChoice, "choice"},         {Kind::kGrid, "grid"}};
  return names;
}

inline constexpr Strategy kStrategies[] = {Strategy::kPack, Strategy::kSpread,
                                           Strategy::kStrictPack, Strategy::kStrictSpread};
inline std::string NameOf(Strategy strategy) {
  switch (strategy) {
    case Strategy::kPack: return "pack";
    case Strategy::kSpread: return "spread";
    case Strategy::kStrictPack: return "strict_pack";
    case Strategy::kStrictSpread: return "strict_spread";
  }
  return "";
}

inline constexpr Mode kModes[] = {Mode::kMax, Mode::kMin};
inline std::string NameOf(Mode mode) { return mode == Mode::kMax ? "max" : "min"; }

}  // namespace rt
