// `rt plan --elastic TRACE`: part of `rt plan`.
#pragma once

#include "cli/commands/common.h"

namespace rt {

ExitCode RunPlanOfTrace(const Invocation& invocation);

}  // namespace rt
