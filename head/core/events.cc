#include "head/core/events.h"

#include <tuple>

namespace rt {

Event::Event() = default;
Event::Event(const Event& other) = default;
Event::Event(Event&& other) noexcept = default;
Event& Event::operator=(const Event& other) = default;
Event& Event::operator=(Event&& other) noexcept = default;
Event::~Event() = default;

template <IsEvent T>
Event::Event(std::in_place_type_t<T> type, T event) : EventVariant(type, std::move(event)) {}

template <IsEvent T>
Event Event::From(T event) {
  return Event(std::in_place_type<T>, std::move(event));
}

namespace {

// Makes the compiler emit Event::From for each alternative: other files only see its declaration.
template <typename Variant>
struct Factories;
template <typename... T>
struct Factories<std::variant<T...>> {
  static inline constexpr std::tuple<Event (*)(T)...> kAll = {&Event::From<T>...};
};
[[gnu::used]] const auto* const kFactories = &Factories<EventVariant>::kAll;

}  // namespace

const char* EventName(const Event& event) {
  return std::visit([](const auto& e) { return std::decay_t<decltype(e)>::kTypeName; }, event);
}

}  // namespace rt
