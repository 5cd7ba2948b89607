#include "worker/gpu/quarantine.h"

#include <algorithm>

#include "common/base/json.h"

namespace rt::worker {

Quarantine Quarantine::Parse(const std::string& text) {
  Quarantine quarantine;
  const auto json = Json::Parse(text);
  if (!json.ok() || !json->is_array()) return quarantine;
  for (const Json& one : json->array()) {
    const std::string uuid = one.is_object() ? one.GetString("uuid") : "";
    if (uuid.empty()) continue;
    const auto is_set = [&one](const char* key, bool absent) {
      const Json* value = one.Find(key);
      return value != nullptr && value->is_bool() ? value->AsBool() : absent;
    };
    quarantine.all_[uuid] = {static_cast<uint64_t>(std::max<int64_t>(1, one.GetInt("number"))),
                             one.GetString("why"), is_set("drains", false),
                             is_set("by_hand", true)};  // Earlier releases did not say.
  }
  return quarantine;
}

std::string Quarantine::Text() const {
  Json list = Json::MakeArray();
  for (const auto& [uuid, one] : all_)
    list.Append(Json::MakeObject({{"uuid", uuid},
                                  {"number", Json(one.number)},
                                  {"why", one.why},
                                  {"drains", one.drains},
                                  {"by_hand", one.by_hand}}));
  return list.Dump();
}

bool Quarantine::Add(const std::string& uuid, Quarantined fault, Millis now) {
  const auto gravity = [](const Quarantined& one) { return one.drains ? 2 : one.by_hand ? 1 : 0; };
  const auto found = all_.find(uuid);
  if (found != all_.end() && gravity(fault) <= gravity(found->second)) return false;
  const uint64_t before = found == all_.end() ? 0 : found->second.number;
  fault.number = std::max(before + 1, static_cast<uint64_t>(std::max<Millis>(1, now)));
  all_[uuid] = std::move(fault);
  return true;
}

bool Quarantine::Clear(const std::string& uuid, uint64_t number) {
  const auto found = all_.find(uuid);
  if (found == all_.end() || found->second.number > number) return false;
  all_.erase(found);
  return true;
}

const Quarantined* Quarantine::Find(const std::string& uuid) const {
  const auto found = all_.find(uuid);
  return found == all_.end() ? nullptr : &found->second;
}

std::string Quarantine::WhyDrain(const std::vector<std::string>& listed) const {
  for (const std::string& uuid : listed)
    if (const Quarantined* one = Find(uuid); one != nullptr && one->drains)
      return "gpu " + uuid + ": " + one->why;
  return "";
}

}  // namespace rt::worker
