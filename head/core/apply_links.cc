#include "head/core/apply_links.h"

#include <algorithm>

#include "common/base/limits.h"

namespace rt {

void ApplySlowLink(State& state, const event::LinkFoundSlow& e, Millis at) {
  std::vector<SlowLink>& links = state.slow_links;
  SlowLink found{.node = e.node, .other = e.other};
  const auto known = std::find_if(links.begin(), links.end(), [&](const SlowLink& link) {
    return link.node == e.node && link.other == e.other;
  });
  if (known != links.end()) {
    found = *known;
    links.erase(known);
  }
  found.bus_gbps = e.bus_gbps;
  found.asked_gbps = e.asked_gbps;
  found.at = at;
  if (links.size() >= limits::kSlowLinksMax) links.erase(links.begin());
  links.push_back(found);
}

void ApplyClearedLink(State& state, const event::LinkCleared& e) {
  std::erase_if(state.slow_links,
                [&](const SlowLink& link) { return link.node == e.node && link.other == e.other; });
}

void ApplyRetriedLink(State& state, const event::LinkRetried& e, Millis at) {
  for (SlowLink& link : state.slow_links) {
    if (link.node != e.node || link.other != e.other) continue;
    ++link.tries;
    link.tried_at = at;
  }
}

void ForgetLinksOf(State& state, NodeId node) {
  std::erase_if(state.slow_links, [&](const SlowLink& link) { return link.Has(node); });
}

}  // namespace rt
