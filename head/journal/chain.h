// The hashes that find damage: each record's covers the record before it, so that a record cannot
// be altered, dropped or moved unnoticed. SHA-256, but without a key: they are no defence against
// a person who can write the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rt {

inline constexpr size_t kHashBytes = 32;

// SHA-256 of `before` followed by `body`.
std::string Chain(std::string_view before, std::string_view body);
// What the first record is chained to.
inline std::string ChainStart() { return std::string(kHashBytes, '\0'); }
// Of the rows that belong to a record.
std::string RowsHash(uint64_t event_seq, std::string_view body);

}  // namespace rt
