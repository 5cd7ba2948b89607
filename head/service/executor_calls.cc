// What drivers ask about the executors of their sessions.
#include <algorithm>
#include <charconv>

#include "common/base/limits.h"
#include "common/base/limits_executors.h"
#include "common/base/status.h"
#include "head/core/executor_index.h"
#include "head/service/operations.h"
#include "head/service/translate.h"

namespace rt {
namespace {

// "EPOCH.SEQ": the newest record that concerned the session, and the head that said it. A head that
// has taken over shows everything again.
struct SessionVersion {
  uint64_t epoch = 0, seq = 0;
  friend bool operator==(const SessionVersion&, const SessionVersion&) = default;
};

SessionVersion VersionFrom(const std::string& text) {
  SessionVersion seen;
  const char* end = text.data() + text.size();
  const auto epoch = std::from_chars(text.data(), end, seen.epoch);
  if (epoch.ec == std::errc() && epoch.ptr != end) std::from_chars(epoch.ptr + 1, end, seen.seq);
  return seen;
}

std::string ToText(const SessionVersion& version) {
  return std::to_string(version.epoch) + "." + std::to_string(version.seq);
}

// Whether anybody else waits for a node. What waits for something that the session does not have
// counts, too: the driver bounds how often it gives an executor back.
bool OthersWait(const World& world, const SessionIndex* session) {
  if (world.index.ready_order.empty()) return false;
  if (session == nullptr) return true;
  const auto& ready = world.index.ready_order;
  return std::any_of(ready.begin(), ready.end(), [&](const auto& one) {
    return !one.first.is_executor() || !session->executors.contains(one.first.executor());
  });
}

}  // namespace

void Operations::RequestExecutors(input::RequestExecutors request, JsonDone done) {
  absl::Status size = CheckSize("the spec", request.spec.size(), limits::kExecutorSpecBytes);
  if (size.ok()) size = CheckSize("key", request.request_key.size(), limits::kNameBytesMax);
  if (!size.ok()) return done(size);
  loop_.Post(std::move(request),
             [done = std::move(done)](const absl::Status& status, const Answer& answer) {
               if (!status.ok()) return done(status);
               Json ids = Json::MakeArray();
               for (ExecutorId id : answer.executors) ids.Append(Json(id.value));
               done(Json::MakeObject({{"executors", std::move(ids)}}));
             });
}

void Operations::WaitExecutors(const SessionKey& session, SessionWait wait, JsonDone done) {
  auto check = [session, before = VersionFrom(wait.seen), yields = wait.yields,
                only_changes = wait.only_changes](
                   const Core& core, const HeadFacts& facts,
                   bool last) -> std::optional<absl::StatusOr<Json>> {
    const SessionIndex* index = FindSession(core.world, session);
    const SessionVersion now{core.world.state.epoch, index == nullptr ? 0 : index->changed_seq};
    const bool wanted = yields && OthersWait(core.world, index);
    if (now == before && !last && !wanted) return std::nullopt;
    const uint64_t after = now.epoch == before.epoch ? before.seq : 0;
    std::optional<Json> changes;
    if (only_changes && after != 0) changes = SessionChanges(core, facts, session, after);
    const bool whole = !changes.has_value();
    return Json::MakeObject(
        {{"seen", ToText(now)},
         {"wanted", wanted},
         {"whole", whole},
         {"executors", whole ? SessionView(core, facts, session, after) : std::move(*changes)}});
  };
  // A session that could not be renewed must not take its wait for a sign that it was.
  loop_.Post(input::RenewSession{session.user, session.name, session.opener},
             [this, check = std::move(check), hold = std::min(wait.hold, limits::kExecutorWaitMax),
              done = std::move(done)](const absl::Status& renewed, const Answer&) mutable {
               if (!renewed.ok()) return done(renewed);
               session_waits_.Add(WaitRole::kDriver, std::move(check), hold, std::move(done));
             });
}

}  // namespace rt
