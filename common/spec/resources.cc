#include "common/spec/resources.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <set>

#include "common/base/quantity.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/experiment_spec.h"
#include "common/spec/slips.h"

namespace rt {
namespace {

constexpr double kAmountMax = 1e9;

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

absl::StatusOr<int64_t> Units(double amount, std::string_view path) {
  if (!std::isfinite(amount) || amount < 0 || amount > kAmountMax)
    return SpecError(path, "must be between 0 and 1e9");
  return static_cast<int64_t>(std::llround(amount * static_cast<double>(kUnit)));
}

// A name that no kind has is that of a custom resource, also one that was mistyped.
absl::StatusOr<int64_t> UnitsOf(const Json& json, const std::string& name, std::string_view path) {
  if (!json.is_number()) {
    const bool is_custom = name != "cpu" && name != "gpu";
    const std::string hint = is_custom ? ResourceHint(name) : "";
    return SpecError(
        path,
        hint.empty() ? "must be a number" : "must be a number, because it is a custom resource",
        hint);
  }
  return Units(json.AsDouble(), path);
}

absl::Status SetOne(Resources& out, const std::string& key, const Json& value,
                    std::string_view path) {
  std::string name = Lower(key);
  if (name == "memory" || name == "memory_bytes") {
    const std::optional<Bytes> bytes = BytesOf(value);
    if (!bytes) return SpecError(path, "must be a size such as 8GiB, or a number of bytes");
    out.memory = *bytes;
    return absl::OkStatus();
  }
  RT_ASSIGN_OR_RETURN(int64_t units, UnitsOf(value, name, path));
  if (name == "cpu") {
    out.cpu = units;
  } else if (name == "gpu") {
    if (units > kUnit && units % kUnit != 0)
      return SpecError(path, "must be a whole number if it is above 1");
    out.gpu = units;
  } else if (units > 0) {
    if (key.empty() || key.size() > 64) return SpecError(path, "has a bad resource name");
    out.custom[key] = units;
  }
  return absl::OkStatus();
}

int64_t Free(const Resources& free, const std::string& name) {
  auto it = free.custom.find(name);
  return it == free.custom.end() ? 0 : it->second;
}

std::string FormatBytes(Bytes bytes) {
  constexpr double kGiB = 1 << 30, kMiB = 1 << 20;
  double value = static_cast<double>(bytes);
  char text[48];
  if (value >= kGiB) {
    std::snprintf(text, sizeof text, "%.3g GiB", value / kGiB);
  } else {
    std::snprintf(text, sizeof text, "%.3g MiB", value / kMiB);
  }
  return text;
}

}  // namespace

bool Resources::Fits(const Resources& free) const {
  // Less than nothing is left of the gpus of a node when one that an attempt holds has failed: what
  // needs no gpu fits all the same.
  const auto fits = [](int64_t wanted, int64_t left) { return wanted <= 0 || wanted <= left; };
  return fits(cpu, free.cpu) && fits(gpu, free.gpu) && fits(memory, free.memory) &&
         std::all_of(custom.begin(), custom.end(),
                     [&](const auto& item) { return fits(item.second, Free(free, item.first)); });
}

void Resources::Add(const Resources& other) {
  cpu += other.cpu;
  gpu += other.gpu;
  memory += other.memory;
  for (const auto& [name, units] : other.custom) custom[name] += units;
}

void Resources::Subtract(const Resources& other) {
  cpu -= other.cpu;
  gpu -= other.gpu;
  memory -= other.memory;
  for (const auto& [name, units] : other.custom) {
    int64_t& mine = custom[name];
    mine -= units;
    if (mine == 0) custom.erase(name);
  }
}

std::string FormatUnits(int64_t units) {
  if (units % kUnit == 0) return std::to_string(units / kUnit);
  return FormatDouble(static_cast<double>(units) / static_cast<double>(kUnit));
}

Json ToJson(const Resources& resources) {
  auto number = [](int64_t units) {
    return units % kUnit == 0 ? Json(units / kUnit)
                              : Json(static_cast<double>(units) / static_cast<double>(kUnit));
  };
  Json custom = Json::MakeObject();
  for (const auto& [name, units] : resources.custom)
    custom.object().emplace_back(name, number(units));
  return Json::MakeObject({{"cpu", number(resources.cpu)},
                           {"gpu", number(resources.gpu)},
                           {"memory_bytes", Json(resources.memory)},
                           {"custom", std::move(custom)}});
}

absl::StatusOr<Resources> ParseResources(const Json& json, std::string_view path) {
  if (!json.is_object()) return SpecError(path, "must be a map such as {cpu: 1, gpu: 0}");
  Resources out;
  for (const auto& [key, value] : json.object()) {
    std::string below = std::string(path) + "/" + key;
    if (Lower(key) == "custom") {
      if (!value.is_object()) return SpecError(below, "must be a map of names to amounts");
      for (const auto& [name, amount] : value.object())
        RT_RETURN_IF_ERROR(SetOne(out, name, amount, below + "/" + name));
      continue;
    }
    RT_RETURN_IF_ERROR(SetOne(out, key, value, below));
  }
  return out;
}

// "8": a number, "8GiB": a text.
static Json AmountOf(std::string_view text) {
  auto number = Json::Parse(text);
  return number.ok() && number->is_number() ? *number : Json(std::string(text));
}

absl::StatusOr<Resources> ParseResourcesFlag(std::string_view text) {
  constexpr std::string_view kHint =
      "write cpu=2,gpu=1,memory=8GiB; any other name, such as fpga=1, is a resource of your own";
  Resources out;
  std::set<std::string> seen;
  for (const std::string& part : Split(text, ',')) {
    if (Trim(part).empty()) continue;
    const size_t equals = part.find('=');
    const std::string name(Trim(std::string_view(part).substr(0, equals)));
    if (equals == std::string::npos || name.empty())
      return Invalid("resources: '" + part + "' is not of the form NAME=AMOUNT", kHint);
    if (!seen.insert(Lower(name)).second)
      return Invalid("resources: '" + Excerpt(name) + "' is there twice", kHint);
    const Json amount = AmountOf(Trim(std::string_view(part).substr(equals + 1)));
    if (absl::Status set = SetOne(out, name, amount, ""); !set.ok())
      return Invalid("resources: " + std::string(Trim(part)) + ": " + MessageOf(set), kHint);
  }
  return out;
}

std::string ToFlag(const Resources& resources) {
  std::vector<std::string> parts = {"cpu=" + FormatUnits(resources.cpu)};
  if (resources.gpu > 0) parts.push_back("gpu=" + FormatUnits(resources.gpu));
  if (resources.memory > 0) parts.push_back("memory=" + std::to_string(resources.memory));
  for (const auto& [name, units] : resources.custom)
    parts.push_back(name + "=" + FormatUnits(units));
  return Join(parts, ",");
}

std::string Describe(const Resources& resources) {
  std::vector<std::string> parts;
  auto count = [&](int64_t units, const std::string& name) {
    if (units != 0) parts.push_back(FormatUnits(units) + " " + name + (units == kUnit ? "" : "s"));
  };
  count(resources.cpu, "cpu");
  count(resources.gpu, "gpu");
  if (resources.memory != 0) parts.push_back(FormatBytes(resources.memory) + " memory");
  for (const auto& [name, units] : resources.custom)
    parts.push_back(FormatUnits(units) + " " + name);
  return parts.empty() ? "nothing" : Join(parts, ", ");
}

std::string DescribeShortage(const Resources& wanted, const Resources& available,
                             const Resources& total) {
  const bool only_cpus = wanted.gpu == 0 && wanted.memory == 0 && wanted.custom.empty();
  std::vector<std::string> parts;
  auto compare = [&](int64_t want, int64_t have, int64_t all, const std::string& name) {
    if (want > have)
      parts.push_back(FormatUnits(have) + " of " + FormatUnits(all) +
                      (only_cpus ? "" : " " + name) + " free");
  };
  compare(wanted.cpu, available.cpu, total.cpu, "cpu");
  compare(wanted.gpu, available.gpu, total.gpu, "gpu");
  if (wanted.memory > available.memory)
    parts.push_back(FormatBytes(available.memory) + " of " + FormatBytes(total.memory) +
                    " memory free");
  for (const auto& [name, units] : wanted.custom)
    compare(units, Free(available, name), Free(total, name), name);
  return Join(parts, ", ");
}

}  // namespace rt
