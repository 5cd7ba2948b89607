// RT_FIELDS(Type, a, b, c): the one list of a struct's fields, written inside it. From it come the
// journal's codec, the text of scenario files and the canonical dump, so none of them can forget
// one.   struct TrialEnded { TrialId trial; std::string reason; RT_FIELDS(TrialEnded, trial,
// reason) };   ForEachField(event, [](const char* name, const auto& value) { … });
#pragma once

namespace rt {

// A field that has another name in the proto: a struct lists them as kWireNames.
struct FieldAlias {
  const char* field;
  const char* in_proto;
};

template <class T>
concept HasFields = requires { T::kFieldCount; };

template <HasFields T, class F>
void ForEachField(T& value, F&& visit) {
  T::VisitFields(value, visit);
}
template <HasFields T, class F>
void ForEachField(const T& value, F&& visit) {
  T::VisitFields(value, visit);
}

}  // namespace rt

#define RT_PARENS_ ()
#define RT_EXPAND_(...) RT_EXPAND4_(RT_EXPAND4_(RT_EXPAND4_(__VA_ARGS__)))
#define RT_EXPAND4_(...) RT_EXPAND3_(RT_EXPAND3_(RT_EXPAND3_(__VA_ARGS__)))
#define RT_EXPAND3_(...) RT_EXPAND2_(RT_EXPAND2_(RT_EXPAND2_(__VA_ARGS__)))
#define RT_EXPAND2_(...) __VA_ARGS__
#define RT_VISIT_EACH_(field, ...) \
  visit(#field, self.field);       \
  __VA_OPT__(RT_VISIT_AGAIN_ RT_PARENS_(__VA_ARGS__))
#define RT_VISIT_AGAIN_() RT_VISIT_EACH_
#define RT_COUNT_EACH_(field, ...) +1 __VA_OPT__(RT_COUNT_AGAIN_ RT_PARENS_(__VA_ARGS__))
#define RT_COUNT_AGAIN_() RT_COUNT_EACH_

#define RT_FIELDS(Type, ...)                                                        \
  static constexpr int kFieldCount = 0 __VA_OPT__(RT_EXPAND_(RT_COUNT_EACH_(__VA_ARGS__))); \
  static constexpr const char* kTypeName = #Type;                                   \
  template <class Self, class Visitor>                                              \
  static void VisitFields([[maybe_unused]] Self& self, [[maybe_unused]] Visitor& visit) { \
    __VA_OPT__(RT_EXPAND_(RT_VISIT_EACH_(__VA_ARGS__)))                             \
  }                                                                                 \
  friend bool operator==(const Type&, const Type&) = default
