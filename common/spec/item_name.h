// Names of experiments, jobs and nodes. Commands name an item by its id or by its name, and an id
// counts first, so that a new item must not have a name that reads as an id. Checked where a
// person's text enters, never where a journal is replayed: earlier releases took such names. Pure.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace rt {

// Whether `text` is an id or a range of ids: "3", "5-8". With a letter also "j3", "j5-8".
bool IsIdOrRange(std::string_view text, char letter = 0);
// Whether commands take all of `text` as ids, and no part of it as a name: "3,5-8", "last", "all".
bool ReadsAsIds(std::string_view text, char letter = 0);
// InvalidArgument for the name of a new item, at `path` of its spec, that commands would read as
// ids or as an option, or that would hide its files. `letter`: of the ids of its kind; 0: none.
absl::Status CheckItemName(std::string_view path, std::string_view name, char letter = 0);

}  // namespace rt
