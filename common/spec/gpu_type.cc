#include "common/spec/gpu_type.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "common/base/strings.h"

namespace rt {
namespace {

bool IsAlpha(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::string Upper(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return upper;
}

// Words that say how a gpu is connected, or how much memory it has.
bool IsOfForm(const std::string& word) {
  for (const char* prefix : {"SXM", "PCI", "HBM", "NVL", "GDDR"})
    if (word.starts_with(prefix)) return true;
  const bool is_size = word.ends_with("GB") || word.ends_with("MB");
  return is_size && IsDigit(word.front());
}

std::vector<std::string> WordsOf(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    if (IsAlpha(c) || IsDigit(c) || c == '.') words.back() += c;
    else if (!words.back().empty()) words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  for (std::string& word : words) word = Upper(word);
  return words;
}

}  // namespace

std::string GpuTypeOf(std::string_view name) {
  const std::vector<std::string> words = WordsOf(name);
  const bool is_mig = std::find(words.begin(), words.end(), "MIG") != words.end();
  const char* ending = is_mig ? "-MIG" : "";
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (IsOfForm(word)) continue;
    if (std::any_of(word.begin(), word.end(), IsDigit) && IsAlpha(word.front()))
      return word + ending;
    const bool is_series = word == "RTX" || word == "GTX";
    if (is_series && i + 1 < words.size() && IsDigit(words[i + 1].front()))
      return word + words[i + 1] + ending;
  }
  return "";
}

std::string GpuTypeResource(std::string_view type) {
  return "accelerator_type:" + std::string(type);
}

void AddGpuType(Resources& node, const std::string& type) {
  if (!type.empty()) node.custom.try_emplace(GpuTypeResource(type), kUnit);
}

}  // namespace rt
