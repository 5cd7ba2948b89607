#include "cli/follow.h"

#include "cli/client/local_cluster.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "common/run/clock.h"
#include "common/run/files.h"

namespace rt {
namespace {

constexpr Millis kStallMax = 60'000;
constexpr Millis kPause = 200;
constexpr int kTriesOnceFinished = 10;

struct Place {
  uint32_t attempt = 0;
  uint32_t generation = 0;  // Of the attempt; 0: the head is of a release that does not say.
  uint64_t offset = 0;
  bool ended = false;  // The attempt's stream was read to its end.
};

v1::ReadLogRequest RequestFrom(const FollowOptions& options, const Place& place) {
  v1::ReadLogRequest request;
  request.mutable_owner()->set_kind(static_cast<uint32_t>(options.owner.kind));
  request.mutable_owner()->set_group(options.owner.group);
  request.mutable_owner()->set_number(options.owner.number);
  request.set_stream(options.stream);
  request.set_node(options.node.value);
  request.set_rank(options.rank);
  request.set_follow(options.follow);
  request.set_attempt(place.attempt != 0 ? place.attempt : options.attempt);
  request.set_generation(place.generation);
  request.set_with_later(options.follow && options.attempt == 0 && place.attempt != 0);
  request.set_offset(place.offset);
  if (place.attempt == 0) request.set_tail_lines(options.tail_lines);
  return request;
}

// Writes what of the chunk is new.
absl::Status Take(const v1::LogChunk& chunk, int fd, Place& place) {
  const std::pair from(chunk.attempt(), chunk.generation());
  const std::pair known_from(place.attempt, place.generation);
  if (chunk.attempt() != 0 && from < known_from) return absl::OkStatus();
  const bool first = place.attempt == 0;
  if (from > known_from)
    place = {chunk.attempt(), chunk.generation(), first ? chunk.offset() : 0, false};
  std::string_view data = chunk.data();
  if (chunk.offset() < place.offset) {
    uint64_t known = place.offset - chunk.offset();
    data.remove_prefix(std::min<size_t>(known, data.size()));
  }
  RT_RETURN_IF_ERROR(WriteAll(fd, data));
  place.offset = std::max<uint64_t>(place.offset, chunk.offset() + chunk.data().size());
  place.ended = chunk.end();
  return absl::OkStatus();
}

}  // namespace

absl::Status FollowLog(HeadClient& client, const FollowOptions& options,
                       const std::atomic<bool>& finished) {
  Place place;
  Millis progress_at = SteadyClock();
  int tries_left = kTriesOnceFinished;
  while (true) {
    grpc::ClientContext context;
    HeadClient::Registered registered(client, &context);
    auto stub = v1::JobService::NewStub(client.Channel());
    auto reader = stub->ReadLog(&context, RequestFrom(options, place));
    v1::LogChunk chunk;
    while (reader->Read(&chunk)) {
      progress_at = SteadyClock();
      absl::Status written = Take(chunk, options.fd, place);
      if (written.ok()) continue;
      context.TryCancel();
      reader->Finish();
      return written;
    }
    absl::Status status = FromGrpc(reader->Finish());
    if (status.ok() || client.cancelled()) return status;
    bool passing = absl::IsUnavailable(status) || absl::IsNotFound(status) ||
                   absl::IsFailedPrecondition(status) || absl::IsResourceExhausted(status);
    // An attempt that is not there yet may come. A node is there from the beginning.
    const bool may_come = options.follow && options.node.value == 0;
    if (!passing || (absl::IsNotFound(status) && !may_come)) return status;
    if (finished && (place.ended || --tries_left <= 0)) return status;
    if (SteadyClock() - progress_at > kStallMax && absl::IsUnavailable(status)) return status;
    SleepFor(kPause);
    client.Refresh().IgnoreError();
  }
}

}  // namespace rt
