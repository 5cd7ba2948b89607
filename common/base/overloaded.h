// Overloaded{lambdas…}: one visitor out of several, for std::visit without a default.
#pragma once

namespace rt {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;  // clang 14 still needs the guide.

}  // namespace rt
