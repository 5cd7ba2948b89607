// How a job of a foreground submit ended, where its exit code alone does not tell. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/json.h"

namespace rt {

// "job 2 was killed by signal 9; experiment 7 continues: rt watch 7, rt exp stop 7, rt exp download
// 7". `job` as `show` has it; `open`: its experiments that are not over. "" where there is nothing
// to add: the script exited by itself and left nothing open.
std::string JobEndText(const Json& job, const std::vector<uint64_t>& open);

}  // namespace rt
