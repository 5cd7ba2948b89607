#include "head/journal/codec.h"

#include <algorithm>
#include <array>

#include <google/protobuf/descriptor.h>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/wire/wire_fields.h"
#include "rt/store/journal.pb.h"
#include "rt/store/state.pb.h"

namespace rt {
namespace {

using codec::WireReader;
using codec::WireWriter;

struct StoreSchema {
  static const google::protobuf::Descriptor* Find(const char* message) {
    const google::protobuf::DescriptorPool* all = store::State::descriptor()->file()->pool();
    return all->FindMessageTypeByName(std::string("rt.store.") + message);
  }
};

constexpr uint32_t kSeqField = store::Record::kSeqFieldNumber;
constexpr uint32_t kAtField = store::Record::kAtFieldNumber;
constexpr size_t kEventTypes = std::variant_size_v<EventVariant>;
using EventFields = std::array<uint32_t, kEventTypes>;

uint32_t FindEventField(const char* type_name) {
  const auto* oneof = store::Record::descriptor()->FindOneofByName("event");
  for (int i = 0; i < oneof->field_count(); ++i) {
    if (oneof->field(i)->message_type()->name() == type_name)
      return static_cast<uint32_t>(oneof->field(i)->number());
  }
  RT_CHECK_BECAUSE(false, type_name);
  return 0;
}

template <size_t... I>
EventFields MakeEventFields(std::index_sequence<I...>) {
  return {FindEventField(std::variant_alternative_t<I, EventVariant>::kTypeName)...};
}

// The number of Record's member for each alternative of Event, in the order of the variant.
const EventFields& FieldsOfEvents() {
  static const EventFields fields = MakeEventFields(std::make_index_sequence<kEventTypes>());
  return fields;
}

template <size_t I = 0>
void DecodeAlternative(size_t index, WireReader& in, Event& event) {
  if constexpr (I < kEventTypes) {
    if (index != I) return DecodeAlternative<I + 1>(index, in, event);
    auto& value = event.emplace<I>();
    codec::SetZero(value);
    codec::Get<StoreSchema>(in, value);
  }
}

template <class T>
std::string EncodeStruct(const T& value) {
  WireWriter out;
  codec::Encode<StoreSchema>(out, value);
  return out.Take();
}

absl::Status Malformed(const char* what) {
  return absl::DataLossError(std::string(what) + ": the bytes are not a protobuf message");
}

template <class T>
absl::StatusOr<T> DecodeStruct(std::string_view bytes, const char* what) {
  T value;
  codec::SetZero(value);
  WireReader in(bytes);
  codec::Decode<StoreSchema>(in, value);
  if (in.failed()) return Malformed(what);
  return value;
}

}  // namespace

std::string EncodeRecord(const Record& record) {
  WireWriter out;
  codec::Put<StoreSchema>(out, {kSeqField}, record.seq);
  codec::Put<StoreSchema>(out, {kAtField}, record.at);
  const uint32_t field = FieldsOfEvents()[record.event.index()];
  std::visit([&](const auto& event) { codec::PutField<StoreSchema>(out, {field}, event); },
             record.event);
  return out.Take();
}

absl::StatusOr<Record> DecodeRecord(std::string_view bytes) {
  Record record;
  uint32_t unknown = 0;
  bool has_event = false;
  const EventFields& fields = FieldsOfEvents();
  WireReader in(bytes);
  while (uint32_t number = in.NextField()) {
    const auto found = std::find(fields.begin(), fields.end(), number);
    if (number == kSeqField) {
      codec::Get<StoreSchema>(in, record.seq);
    } else if (number == kAtField) {
      codec::Get<StoreSchema>(in, record.at);
    } else if (found != fields.end()) {
      DecodeAlternative(static_cast<size_t>(found - fields.begin()), in, record.event);
      has_event = true;
    } else {
      unknown = number;
      in.Skip();
    }
  }
  if (in.failed()) return Malformed("record");
  if (has_event) return record;
  const std::string type = unknown == 0 ? "none" : std::to_string(unknown);
  return absl::FailedPreconditionError("record " + std::to_string(record.seq) + ": event type " +
                                       type + " is unknown to rt " RT_VERSION);
}

std::string EncodeRows(const RowBatch& batch) { return EncodeStruct(batch); }

absl::StatusOr<RowBatch> DecodeRows(std::string_view bytes) {
  return DecodeStruct<RowBatch>(bytes, "rows");
}

std::string EncodeState(const State& state) { return EncodeStruct(state); }

absl::StatusOr<State> DecodeState(std::string_view bytes) {
  return DecodeStruct<State>(bytes, "snapshot");
}

}  // namespace rt
