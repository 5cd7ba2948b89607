// The functions of libpq that the PostgreSQL journal uses, opened at run time: a head with another
// journal does without the forty libraries that it brings along.
#pragma once

#include <libpq-fe.h>

#include "absl/status/statusor.h"

namespace rt {

#define RT_PQ_FUNCTIONS(X)                                                                     \
  X(PQbackendPID) X(PQclear) X(PQcmdTuples) X(PQconnectdbParams) X(PQconninfoFree)             \
  X(PQconninfoParse) X(PQerrorMessage) X(PQexec) X(PQexecParams) X(PQfinish) X(PQfreemem)      \
  X(PQgetResult) X(PQgetlength) X(PQgetvalue) X(PQntuples) X(PQputCopyData) X(PQputCopyEnd)    \
  X(PQresultErrorField) X(PQresultStatus) X(PQsetNoticeProcessor) X(PQstatus)
struct LibPq {
#define RT_PQ_FUNCTION(name) decltype(&::name) name = nullptr;
  RT_PQ_FUNCTIONS(RT_PQ_FUNCTION)
#undef RT_PQ_FUNCTION
};
// Opens it once, for good. FailedPrecondition: it is not there, with what to install.
absl::StatusOr<const LibPq*> OpenLibPq();
// After OpenLibPq has succeeded.
const LibPq& Pq();

}  // namespace rt
