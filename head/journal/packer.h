// Gathers shipped slots into packs, so that a long log is few objects, and lets old slots go. Works
// on a thread of its own, one pack at a time; what fails is tried again with the next one.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "head/journal/shipped_log.h"

namespace rt {

class Packer {
 public:
  Packer(ShippedLog& log, Journal& local, std::string writer, Bytes pack_bytes, Millis kept_for)
      : log_(log), local_(local), writer_(std::move(writer)), pack_bytes_(pack_bytes),
        kept_for_(kept_for) {}
  ~Packer();

  void Add(Bytes shipped) {  // The shipping thread's.
    bytes_ += shipped;
    ++slots_;
  }
  // Starts when enough was shipped since the last pack. The shipping thread's; returns at once.
  void Consider(uint64_t shipped_seq);

 private:
  absl::Status Pack(uint64_t until_seq);

  ShippedLog& log_;
  Journal& local_;
  const std::string writer_;
  const Bytes pack_bytes_;
  const Millis kept_for_;
  Bytes bytes_ = 0;
  size_t slots_ = 0;
  std::atomic<bool> running_ = false;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace rt
