#include "head/core/apply_links.h"

#include <algorithm>

#include "common/base/limits.h"

namespace rt {

void ApplySlowLink(State& state, const event::LinkFoundSlow& e, Millis at) {
  std::vector<SlowLink>& links = state.slow_links;
  std::erase_if(links,
                [&](const SlowLink& link) { return link.node == e.node && link.other == e.other; });
  if (links.size() >= limits::kSlowLinksMax) links.erase(links.begin());
  links.push_back({e.node, e.other, e.bus_gbps, e.asked_gbps, at});
}

void ApplyClearedLink(State& state, const event::LinkCleared& e) {
  std::erase_if(state.slow_links,
                [&](const SlowLink& link) { return link.node == e.node && link.other == e.other; });
}

void ForgetLinksOf(State& state, NodeId node) {
  std::erase_if(state.slow_links, [&](const SlowLink& link) { return link.Has(node); });
}

}  // namespace rt
