// pack_programs FOLDER: makes the archive of the programs beside this one, below FOLDER.
#include <cstdio>

#include "common/base/status.h"
#include "common/programs/programs_archive.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  absl::StatusOr<rt::ProgramsArchive> archive = rt::ProgramsArchive::Open(argv[1]);
  const absl::Status made = archive.ok() ? archive->File().status() : archive.status();
  if (!made.ok()) std::fprintf(stderr, "%s\n", rt::MessageOf(made).c_str());
  return made.ok() ? 0 : 1;
}
