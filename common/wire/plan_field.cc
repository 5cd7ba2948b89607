#include <google/protobuf/descriptor.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/strings.h"
#include "common/wire/wire_fields.h"

namespace rt::codec {
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

FieldPlan PlanField(FindMessage find, const char* message, const char* field, ProtoType type,
                    const char* of, bool is_list, bool is_map) {
  const Descriptor* owner = find(message);
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
  RT_LOG(kWarning) << "a text that is not UTF-8 was written with U+FFFD in it";
  return ValidUtf8(text);
}

}  // namespace rt::codec
