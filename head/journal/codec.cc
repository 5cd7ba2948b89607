#include "head/journal/codec.h"

#include <array>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "head/journal/proto_fields.h"
#include "rt/store/journal.pb.h"

namespace rt {
namespace store_codec {

const Descriptor& DescriptorOf(const char* type_name) {
  const Descriptor* found = store::Record::descriptor()->file()->FindMessageTypeByName(type_name);
  RT_CHECK_BECAUSE(found != nullptr, type_name);
  return *found;
}

std::string ValidText(const std::string& text) {
  if (IsValidUtf8(text)) return text;
  RT_LOG(kWarning) << "a text that is not UTF-8 was journalled with '?' in it";
  std::string valid = text;
  for (char& c : valid) {
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
  return valid;
}

}  // namespace store_codec

namespace {

using store_codec::FieldDescriptor;
using store_codec::Message;

constexpr size_t kEventTypes = std::variant_size_v<Event>;
using EventFields = std::array<const FieldDescriptor*, kEventTypes>;

const FieldDescriptor* FindEventField(const char* type_name) {
  const auto* oneof = store::Record::descriptor()->FindOneofByName("event");
  for (int i = 0; i < oneof->field_count(); ++i) {
    if (oneof->field(i)->message_type()->name() == type_name) return oneof->field(i);
  }
  RT_CHECK_BECAUSE(false, type_name);
  return nullptr;
}

template <size_t... I>
EventFields MakeEventFields(std::index_sequence<I...>) {
  return {FindEventField(std::variant_alternative_t<I, Event>::kTypeName)...};
}

// Record's member of the oneof for each alternative of Event, in the order of the variant.
const EventFields& FieldsOfEvents() {
  static const EventFields fields = MakeEventFields(std::make_index_sequence<kEventTypes>());
  return fields;
}

template <size_t I = 0>
void DecodeAlternative(size_t index, const Message& body, Event& event) {
  if constexpr (I < kEventTypes) {
    if (index != I) return DecodeAlternative<I + 1>(index, body, event);
    store_codec::DecodeFrom(body, event.emplace<I>());
  }
}

// Maps are written in the order of their keys, so that equal values have equal bytes.
std::string Serialize(const Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream output(&stream);
    output.SetSerializationDeterministic(true);
    RT_CHECK(message.SerializeToCodedStream(&output));
  }
  return bytes;
}

// ParseFromArray refuses nothing but malformed bytes; a size beyond 2 GiB cannot be told apart.
bool Parse(std::string_view bytes, Message& message) {
  return bytes.size() < (size_t{1} << 31) &&
         message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

template <class Proto, class T>
absl::StatusOr<T> DecodeStruct(std::string_view bytes, const char* what) {
  Proto message;
  if (!Parse(bytes, message)) {
    return absl::DataLossError(std::string(what) + ": the bytes are not a protobuf message");
  }
  T value;
  store_codec::DecodeFrom(message, value);
  return value;
}

}  // namespace

std::string EncodeRecord(const Record& record) {
  store::Record message;
  message.set_seq(record.seq);
  message.set_at(record.at);
  const FieldDescriptor* field = FieldsOfEvents()[record.event.index()];
  Message& body = *message.GetReflection()->MutableMessage(&message, field);
  std::visit([&](const auto& event) { store_codec::EncodeInto(body, event); }, record.event);
  return Serialize(message);
}

absl::StatusOr<Record> DecodeRecord(std::string_view bytes) {
  store::Record message;
  if (!Parse(bytes, message)) {
    return absl::DataLossError("record: the bytes are not a protobuf message");
  }
  Record record{.seq = message.seq(), .at = message.at()};
  const auto* oneof = store::Record::descriptor()->FindOneofByName("event");
  const auto& access = *message.GetReflection();
  const FieldDescriptor* present = access.GetOneofFieldDescriptor(message, oneof);
  if (present == nullptr) {
    const auto& unknown = access.GetUnknownFields(message);
    std::string type = unknown.empty() ? "none" : std::to_string(unknown.field(0).number());
    return absl::FailedPreconditionError("record " + std::to_string(record.seq) +
                                         ": event type " + type + " is unknown to rt " RT_VERSION);
  }
  const EventFields& fields = FieldsOfEvents();
  const auto index = static_cast<size_t>(std::find(fields.begin(), fields.end(), present) -
                                         fields.begin());
  RT_CHECK(index < kEventTypes);
  DecodeAlternative(index, access.GetMessage(message, present), record.event);
  return record;
}

std::string EncodeRows(const RowBatch& batch) {
  store::RowBatch message;
  store_codec::EncodeInto(message, batch);
  return Serialize(message);
}

absl::StatusOr<RowBatch> DecodeRows(std::string_view bytes) {
  return DecodeStruct<store::RowBatch, RowBatch>(bytes, "rows");
}

std::string EncodeState(const State& state) {
  store::State message;
  store_codec::EncodeInto(message, state);
  return Serialize(message);
}

absl::StatusOr<State> DecodeState(std::string_view bytes) {
  return DecodeStruct<store::State, State>(bytes, "snapshot");
}

}  // namespace rt
