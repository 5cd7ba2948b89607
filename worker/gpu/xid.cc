#include "worker/gpu/xid.h"

#include <algorithm>
#include <cctype>

namespace rt::worker {

const char* XidClassName(XidClass kind) {
  switch (kind) {
    case XidClass::kNotice: return "notice";
    case XidClass::kUser: return "user";
    case XidClass::kRetry: return "retry";
    case XidClass::kQuarantine: return "quarantine";
    case XidClass::kDrain: return "drain";
  }
  return "";
}

const std::vector<XidMeaning>& XidTable() {
  using enum XidClass;
  static const std::vector<XidMeaning> table = {
      {8, kUser, "a channel of the program timed out"},
      {11, kUser, "an invalid or corrupted stream of commands"},
      {13, kUser, "an exception of the compute engine, such as an illegal address"},
      {31, kUser, "a page fault: an illegal address"},
      {32, kUser, "an invalid or corrupted stream of commands"},
      {37, kUser, "the driver refused a command of the program"},
      {38, kDrain, "an error of the driver's firmware"},
      {43, kUser, "the gpu stopped the program after its error"},
      {45, kNotice, "what ran was cleaned up after an error or a kill"},
      {46, kQuarantine, "the gpu stopped processing"},
      {48, kQuarantine, "an uncorrectable error of the memory"},
      {61, kQuarantine, "the internal microcontroller reports an error"},
      {62, kQuarantine, "the internal microcontroller has halted"},
      {63, kNotice, "a row or a page of the memory was marked to be replaced"},
      {64, kQuarantine, "a bad row or page of the memory could not be replaced"},
      {68, kUser, "an exception of the video decoder"},
      {69, kUser, "an error of the graphics engine's class"},
      {74, kQuarantine, "an error of NVLink"},
      {79, kQuarantine, "the gpu has fallen off the bus"},
      {92, kNotice, "many corrected errors of the memory"},
      {94, kRetry, "an uncorrectable error of the memory, contained to one program"},
      {95, kQuarantine, "an uncorrectable error of the memory that was not contained"},
      {109, kQuarantine, "a switch between programs timed out"},
      {110, kDrain, "a fault of the gpu's security engine"},
      {119, kDrain, "the gpu's system processor does not answer"},
      {120, kDrain, "an error of the gpu's system processor"},
      {121, kNotice, "a corrected error of the link between chips"},
      {123, kQuarantine, "the power management unit does not answer"},
      {136, kQuarantine, "NVLink could not be trained"},
      {137, kUser, "a write over NVLink without the right to it"},
      {140, kQuarantine, "uncorrectable errors of the memory without recovery"},
      {143, kDrain, "the gpu could not be initialised"},
      {149, kQuarantine, "an error of NVLink's data layer"},
      {154, kNotice, "the driver names what the gpu needs to recover"},
      {171, kQuarantine, "an uncorrectable error of the memory"},
      {172, kQuarantine, "an uncorrectable error of the caches"},
  };
  return table;
}

XidMeaning MeaningOfXid(uint64_t number) {
  const std::vector<XidMeaning>& table = XidTable();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const XidMeaning& one) { return one.number == number; });
  return found == table.end() ? XidMeaning{number, XidClass::kNotice, "unknown to rt"} : *found;
}

std::string DescribeXid(uint64_t number) {
  if (number == 0) return "an uncorrectable error of the memory (double bit ECC)";
  return "Xid " + std::to_string(number) + ": " + MeaningOfXid(number).what;
}

XidClass ClassOfXid(uint64_t number) {
  return number == 0 ? XidClass::kQuarantine : MeaningOfXid(number).kind;
}

bool NeedsPerson(uint64_t number) {
  constexpr uint64_t kUntested[] = {64, 74, 136, 149};
  return ClassOfXid(number) == XidClass::kDrain ||
         std::find(std::begin(kUntested), std::end(kUntested), number) != std::end(kUntested);
}

// "…NVRM: Xid (PCI:0000:3b:00): 79, pid=…": also with a function, ".0", behind the device.
std::optional<KernelXid> ParseKernelLine(std::string_view line) {
  constexpr std::string_view kMark = "NVRM: Xid (PCI:";
  constexpr size_t kBusBytes = 10;
  const size_t mark = line.find(kMark);
  if (mark == std::string_view::npos) return std::nullopt;
  const std::string_view rest = line.substr(mark + kMark.size());
  const size_t close = rest.find("): ");
  if (close == std::string_view::npos || close < kBusBytes) return std::nullopt;
  KernelXid told;
  for (const char c : rest.substr(0, kBusBytes))
    told.bus += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  constexpr uint64_t kMost = 1'000'000;
  for (const char c : rest.substr(close + 3)) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0 || told.xid > kMost) break;
    told.xid = told.xid * 10 + static_cast<uint64_t>(c - '0');
  }
  return told.xid == 0 ? std::nullopt : std::optional(told);
}

bool XidFilter::IsNews(const std::string& uuid, uint64_t xid, Millis now) {
  constexpr Millis kSame = 2'000;
  const auto [at, is_first] = told_.try_emplace({uuid, xid}, now);
  if (!is_first && now - at->second <= kSame) return false;
  at->second = now;
  return true;
}

void XidFilter::Forget(const std::string& uuid) {
  std::erase_if(told_, [&](const auto& one) { return one.first.first == uuid; });
}

}  // namespace rt::worker
