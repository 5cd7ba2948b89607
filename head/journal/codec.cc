#include "head/journal/codec.h"

#include <algorithm>
#include <array>

#include <google/protobuf/descriptor.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "head/journal/wire_fields.h"
#include "rt/store/journal.pb.h"
#include "rt/store/state.pb.h"

namespace rt {
namespace store_codec {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

bool Agrees(const FieldDescriptor& field, ProtoType type) {
  switch (type) {
    case ProtoType::kBool: return field.type() == FieldDescriptor::TYPE_BOOL;
    case ProtoType::kText:
      return field.type() == FieldDescriptor::TYPE_STRING ||
             field.type() == FieldDescriptor::TYPE_BYTES;
    case ProtoType::kUint32: return field.type() == FieldDescriptor::TYPE_UINT32;
    case ProtoType::kInt32: return field.type() == FieldDescriptor::TYPE_INT32;
    case ProtoType::kUint64: return field.type() == FieldDescriptor::TYPE_UINT64;
    case ProtoType::kInt64: return field.type() == FieldDescriptor::TYPE_INT64;
    case ProtoType::kDouble: return field.type() == FieldDescriptor::TYPE_DOUBLE;
    case ProtoType::kMessage: return field.type() == FieldDescriptor::TYPE_MESSAGE;
  }
  return false;
}

}  // namespace

FieldPlan PlanField(const char* message, const char* field, ProtoType type, const char* of,
                    bool is_list, bool is_map) {
  const Descriptor* owner = store::Record::descriptor()->file()->FindMessageTypeByName(message);
  if (owner == nullptr)
    owner = store::State::descriptor()->file()->FindMessageTypeByName(message);
  RT_CHECK_BECAUSE(owner != nullptr, message);
  const FieldDescriptor* found = owner->FindFieldByName(field);
  RT_CHECK_BECAUSE(found != nullptr, field);
  RT_CHECK_BECAUSE(found->is_map() == is_map && found->is_repeated() == (is_list || is_map), field);
  const FieldDescriptor& value = is_map ? *found->message_type()->map_value() : *found;
  RT_CHECK_BECAUSE(Agrees(value, type), field);
  RT_CHECK_BECAUSE(of == nullptr || value.message_type()->name() == of, field);
  return {.number = static_cast<uint32_t>(found->number()),
          .is_utf8 = value.type() == FieldDescriptor::TYPE_STRING};
}

std::string ValidText(const std::string& text) {
  if (IsValidUtf8(text)) return text;
  RT_LOG(kWarning) << "a text that is not UTF-8 was journalled with U+FFFD in it";
  return ValidUtf8(text);
}

}  // namespace store_codec

namespace {

using store_codec::WireReader;
using store_codec::WireWriter;

constexpr uint32_t kSeqField = store::Record::kSeqFieldNumber;
constexpr uint32_t kAtField = store::Record::kAtFieldNumber;
constexpr size_t kEventTypes = std::variant_size_v<Event>;
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
  return {FindEventField(std::variant_alternative_t<I, Event>::kTypeName)...};
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
    store_codec::SetZero(value);
    store_codec::Get(in, value);
  }
}

template <class T>
std::string EncodeStruct(const T& value) {
  WireWriter out;
  store_codec::Encode(out, value);
  return out.Take();
}

absl::Status Malformed(const char* what) {
  return absl::DataLossError(std::string(what) + ": the bytes are not a protobuf message");
}

template <class T>
absl::StatusOr<T> DecodeStruct(std::string_view bytes, const char* what) {
  T value;
  store_codec::SetZero(value);
  WireReader in(bytes);
  store_codec::Decode(in, value);
  if (in.failed()) return Malformed(what);
  return value;
}

}  // namespace

std::string EncodeRecord(const Record& record) {
  WireWriter out;
  store_codec::Put(out, {kSeqField}, record.seq);
  store_codec::Put(out, {kAtField}, record.at);
  const uint32_t field = FieldsOfEvents()[record.event.index()];
  std::visit([&](const auto& event) { store_codec::PutField(out, {field}, event); }, record.event);
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
      store_codec::Get(in, record.seq);
    } else if (number == kAtField) {
      store_codec::Get(in, record.at);
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
