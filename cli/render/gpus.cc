#include "cli/render/gpus.h"

#include <vector>

#include "cli/render/nouns.h"
#include "cli/render/why.h"
#include "common/base/strings.h"

namespace rt {
namespace {

void AddNumber(const Json& of, const char* key, const std::string& unit,
               std::vector<std::string>& parts) {
  if (const Json* value = of.Find(key); value != nullptr && value->is_number())
    parts.push_back(FormatDouble(value->AsDouble()) + unit);
}

std::string TelemetryText(const Json& telemetry) {
  if (!telemetry.is_object()) return "no sample yet";
  std::vector<std::string> parts;
  AddNumber(telemetry, "utilisation_percent", " % busy", parts);
  if (const Json* used = telemetry.Find("memory_used_bytes"); used != nullptr && used->is_int())
    parts.push_back(BytesText(used->AsInt()) + " in use");
  AddNumber(telemetry, "temperature_c", " C", parts);
  AddNumber(telemetry, "power_w", " W", parts);
  AddNumber(telemetry, "sm_mhz", " MHz", parts);
  return Join(parts, ", ");
}

std::vector<std::string> TextsOf(const Json& telemetry) {
  std::vector<std::string> texts;
  const auto list = [&](const char* key) {
    const Json* all = telemetry.is_object() ? telemetry.Find(key) : nullptr;
    return all != nullptr && all->is_array() ? all->array() : Json::Array{};
  };
  std::vector<std::string> slow;
  for (const Json& one : list("throttled_by")) slow.push_back(CellText(&one));
  if (!slow.empty()) texts.push_back("slowed by " + Join(slow, " and "));
  for (const Json& one : list("processes")) {
    std::vector<std::string> of;
    if (const std::string name = one.GetString("name"); !name.empty()) of.push_back(name);
    if (const std::string run = one.GetString("attempt"); !run.empty()) of.push_back(RunText(run));
    texts.push_back("pid " + std::to_string(one.GetInt("pid")) +
                    (of.empty() ? "" : " (" + Join(of, ", ") + ")"));
  }
  return texts;
}

}  // namespace

std::string GpuText(const Json& gpu) {
  const Json* telemetry = gpu.Find("telemetry");
  const Json none;
  const Json& sample = telemetry == nullptr ? none : *telemetry;
  std::string text = std::to_string(gpu.GetInt("index")) + " " + gpu.GetString("state") + " " +
                     gpu.GetString("name") + ", " + BytesText(gpu.GetInt("memory_bytes"));
  if (const std::string reason = gpu.GetString("reason"); !reason.empty())
    text += " (" + reason + ")";
  text += ": " + TelemetryText(sample);
  for (const std::string& more : TextsOf(sample)) text += "; " + more;
  return text;
}

}  // namespace rt
