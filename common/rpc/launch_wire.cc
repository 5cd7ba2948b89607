#include "common/rpc/launch_wire.h"

#include "common/base/status.h"
#include "common/wire/wire_fields.h"
#include "rt/v1/common.pb.h"
#include "rt/v1/worker.pb.h"

namespace rt {
namespace {

struct WorkerSchema {
  static const google::protobuf::Descriptor* Find(const char* message) {
    const auto* found = v1::LaunchSpec::descriptor()->file()->FindMessageTypeByName(message);
    return found != nullptr ? found
                            : v1::Fence::descriptor()->file()->FindMessageTypeByName(message);
  }
};

template <class T>
std::string EncodeMessage(const T& value) {
  codec::WireWriter out;
  codec::Encode<WorkerSchema>(out, value);
  return out.Take();
}

template <class T>
absl::StatusOr<T> DecodeMessage(std::string_view bytes) {
  T value;
  codec::SetZero(value);
  codec::WireReader in(bytes);
  codec::Decode<WorkerSchema>(in, value);
  if (in.failed()) return Invalid(std::string("no message of rt.v1.") + T::kTypeName);
  return value;
}

}  // namespace

std::string EncodeLaunch(const LaunchSpec& spec) { return EncodeMessage(spec); }

absl::StatusOr<LaunchSpec> DecodeLaunch(std::string_view bytes) {
  absl::StatusOr<LaunchSpec> spec = DecodeMessage<LaunchSpec>(bytes);
  const bool is_known = !spec.ok() || spec->durable_after == DurableAfter::kPeer ||
                        spec->durable_after == DurableAfter::kLocal;
  if (!is_known) spec->durable_after = DurableAfter::kStore;
  return spec;
}

std::string EncodeObserved(const Observed& observed) { return EncodeMessage(observed); }

absl::StatusOr<Observed> DecodeObserved(std::string_view bytes) {
  return DecodeMessage<Observed>(bytes);
}

std::string EncodeGpuSample(const GpuSample& sample) { return EncodeMessage(sample); }

absl::StatusOr<GpuSample> DecodeGpuSample(std::string_view bytes) {
  return DecodeMessage<GpuSample>(bytes);
}

std::string EncodeProfile(const ProfileReport& report) { return EncodeMessage(report); }

absl::StatusOr<ProfileReport> DecodeProfile(std::string_view bytes) {
  return DecodeMessage<ProfileReport>(bytes);
}

}  // namespace rt
