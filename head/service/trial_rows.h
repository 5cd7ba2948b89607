// The rows of a trial, in answers of bounded size: read from the journal on the io pool piece by
// piece, and completed with what the core knows. However many there are, the head holds one piece.
#pragma once

#include <string>

#include "head/service/settings.h"

namespace rt {

struct RowsAsk {
  TrialId trial;                // Experiment 0: the newest.
  double after_iteration = -1;  // Only rows of later iterations.
  std::string after;            // `next` of the answer before; empty: from the first row.
};

// {"rows": […], "more": bool, "next": text or null}. An answer is cut near kRowsAnswerBytes and has
// at least one row; a request with its `next` gets the rows after its last one.
void ReadTrialRows(HeadLoop& loop, Journal& journal, const Io& io, const RowsAsk& ask,
                   JsonDone done);

}  // namespace rt
