// ListResults and ReadResult: which directories an experiment's results lie in is asked of the
// core, the files are read on the io pool.
#pragma once

#include "head/service/services.h"
#include "rt/v1/experiment.pb.h"

namespace rt {

void ListResults(Edge& edge, const v1::ListResultsRequest& request, v1::ListResultsReply& reply,
                 StatusDone done);
void ReadResult(Edge& edge, const v1::ReadResultRequest& request, v1::ReadResultReply& reply,
                StatusDone done);

}  // namespace rt
