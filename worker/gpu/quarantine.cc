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
    const Json* drains = one.Find("drains");
    quarantine.all_[uuid] = {static_cast<uint64_t>(std::max<int64_t>(1, one.GetInt("number"))),
                             one.GetString("why"),
                             drains != nullptr && drains->is_bool() && drains->AsBool()};
  }
  return quarantine;
}

std::string Quarantine::Text() const {
  Json list = Json::MakeArray();
  for (const auto& [uuid, one] : all_)
    list.Append(Json::MakeObject(
        {{"uuid", uuid}, {"number", Json(one.number)}, {"why", one.why}, {"drains", one.drains}}));
  return list.Dump();
}

bool Quarantine::Add(const std::string& uuid, const std::string& why, bool drains, Millis now) {
  const auto found = all_.find(uuid);
  if (found != all_.end() && (found->second.drains || !drains)) return false;
  const uint64_t before = found == all_.end() ? 0 : found->second.number;
  all_[uuid] = {std::max(before + 1, static_cast<uint64_t>(std::max<Millis>(1, now))), why, drains};
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
