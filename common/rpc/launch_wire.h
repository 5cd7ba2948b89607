// The launch record and what a worker observes, to the bytes of rt.v1.LaunchSpec and
// rt.v1.Observed and back: on both ends the same code, which walks the lists of fields
// (common/wire/wire_fields.h).
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/elastic/profile.h"
#include "common/spec/gpu_facts.h"
#include "common/spec/launch_spec.h"
#include "common/spec/observed.h"

namespace rt {

std::string EncodeLaunch(const LaunchSpec& spec);
// InvalidArgument for what is no message of that type. Fields that this release does not know are
// skipped; what commits a checkpoint, if it is unknown here, becomes the store.
absl::StatusOr<LaunchSpec> DecodeLaunch(std::string_view bytes);

std::string EncodeObserved(const Observed& observed);
absl::StatusOr<Observed> DecodeObserved(std::string_view bytes);

std::string EncodeGpuSample(const GpuSample& sample);
absl::StatusOr<GpuSample> DecodeGpuSample(std::string_view bytes);

std::string EncodeProfile(const ProfileReport& report);
absl::StatusOr<ProfileReport> DecodeProfile(std::string_view bytes);

}  // namespace rt
