#include "head/journal/lead_beat.h"

#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/run/random.h"

namespace rt {
namespace {

constexpr char kKey[] = "lead";
using std::chrono::milliseconds;
using std::chrono::steady_clock;

}  // namespace

absl::StatusOr<std::optional<LeadSign>> ReadLeadSign(ObjectStore& store) {
  absl::StatusOr<std::string> text = store.Get(kKey);
  if (absl::IsNotFound(text.status())) return std::optional<LeadSign>();
  if (!text.ok()) return text.status();
  RT_ASSIGN_OR_RETURN(Json json, Json::Parse(*text));
  const Json* ended = json.Find("ended");
  return LeadSign{.holder = json.GetString("holder"),
                  .address = json.GetString("address"),
                  .beat = static_cast<uint64_t>(json.GetInt("beat")),
                  .ended = ended != nullptr && ended->is_bool() && ended->AsBool()};
}

LeadBeat::LeadBeat(ObjectStore& store, std::string holder, std::string address, Millis every)
    : store_(store), holder_(std::move(holder)), address_(std::move(address)), every_(every),
      beat_(std::stoull(RandomHex(4), nullptr, 16)) {
  Write(false);
  thread_ = std::thread([this] { Run(); });
}

LeadBeat::~LeadBeat() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  Write(true);
}

void LeadBeat::Run() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, milliseconds(every_), [this] { return stopping_; })) {
    lock.unlock();
    Write(false);
    lock.lock();
  }
}

void LeadBeat::Write(bool ended) {
  const Json sign = Json::MakeObject(
      {{"holder", holder_}, {"address", address_}, {"beat", Json(++beat_)}, {"ended", ended}});
  absl::Status status = store_.Put(kKey, sign.Dump());
  if (!status.ok() && !complained_) {
    RT_LOG(kWarning) << "the sign of life in the shipped journal: " << MessageOf(status);
  }
  complained_ = !status.ok();
}

bool LeadWatch::IsFree(const std::optional<LeadSign>& sign) {
  if (!sign.has_value() || sign->ended) return true;
  const auto now = steady_clock::now();
  if (!last_.has_value() || last_->beat != sign->beat || last_->holder != sign->holder) {
    last_ = sign;
    changed_at_ = now;
  }
  return now - changed_at_ >= milliseconds(stale_after_);
}

}  // namespace rt
