// What the driver's error numbers (Xid) mean for the work on a gpu, and how the kernel's log tells
// them. The table follows NVIDIA's catalog (docs.nvidia.com/deploy/xid-errors) and is repeated,
// with reasons, in docs/gpus.md; a test compares them. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/time.h"

namespace rt::worker {

// From harmless to grave.
enum class XidClass {
  kNotice,      // Nothing follows: it is logged.
  kUser,        // The program's own doing: its failure counts as it always does.
  kRetry,       // What ran there and fails is run again, and it is no failure of the trial's.
  kQuarantine,  // Besides, the gpu takes no work until it is cleared.
  kDrain,       // Besides, the node drains: the fault is not that of one gpu alone.
};
const char* XidClassName(XidClass kind);  // "notice", "user", "retry", "quarantine", "drain".

struct XidMeaning {
  uint64_t number = 0;
  XidClass kind = XidClass::kNotice;
  const char* what = "";
};
const std::vector<XidMeaning>& XidTable();
// Of a number that is not in the table: a notice.
XidMeaning MeaningOfXid(uint64_t number);
// "Xid 79: the gpu has fallen off the bus"; of 0: an uncorrectable error of the memory.
std::string DescribeXid(uint64_t number);
XidClass ClassOfXid(uint64_t number);  // Of 0, an uncorrectable error of the memory, kQuarantine.
// Whether only a person ends the quarantine that follows: rt-probe does not test what has failed,
// which is the driver's firmware (kDrain), a link, or a row that nothing replaces.
bool NeedsPerson(uint64_t number);

// A line of the kernel's log about an Xid.
struct KernelXid {
  std::string bus;  // "0000:3b:00".
  uint64_t xid = 0;
};
std::optional<KernelXid> ParseKernelLine(std::string_view line);

// The driver tells an Xid twice, as an event and in the kernel's log, which is read every half
// second. What comes later than that is another one.
class XidFilter {
 public:
  bool IsNews(const std::string& uuid, uint64_t xid, Millis now);
  void Forget(const std::string& uuid);  // It was cleared: whatever comes now is news.

 private:
  std::map<std::pair<std::string, uint64_t>, Millis> told_;  // When each was news.
};

}  // namespace rt::worker
