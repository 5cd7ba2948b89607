// A trial that reports as fast as it may: report_trial DIRECTORY TRIALS REPORTS.
// It waits until TRIALS of its kind are ready, then sends rows in groups whose last one asks for a
// verdict, which comes after the head's commit; two groups are under way at any time. Writes
// DIRECTORY/<trial>: the first line "START END" in seconds of the wall clock, then one line per
// group: milliseconds from sending its first row to knowing its last one committed.
#include <dirent.h>
#include <time.h>

#include <deque>
#include <vector>

#include "tests/bench/trial_socket.h"

namespace {

constexpr int kGroup = 50;
constexpr size_t kGroupsUnderWay = 2;

double Now() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

int CountReady(const std::string& directory) {
  int count = 0;
  DIR* entries = ::opendir(directory.c_str());
  if (entries == nullptr) rt::bench::Fail("cannot read " + directory);
  while (dirent* entry = ::readdir(entries)) {
    if (std::strncmp(entry->d_name, "ready", 5) == 0) ++count;
  }
  ::closedir(entries);
  return count;
}

std::string Group(int first, int count) {
  std::string lines;
  for (int seq = first; seq < first + count; ++seq) {
    char line[256];
    std::snprintf(line, sizeof line,
                  "{\"op\":\"report\",\"seq\":%d,\"wait\":%s,\"metrics\":"
                  "{\"loss\":%.6f,\"accuracy\":%.4f,\"epoch\":%d}}\n",
                  seq, seq == first + count - 1 ? "true" : "false", 1.0 / seq, 1 - 0.5 / seq, seq);
    lines += line;
  }
  return lines;
}

void AwaitVerdict(rt::bench::TrialClient& client, int seq) {
  const std::string wanted = "\"seq\":" + std::to_string(seq) + ",";
  while (true) {
    const std::string line = client.Receive();
    if (line.find("\"error\"") != std::string::npos) rt::bench::Fail(line);
    if (line.find("\"verdict\"") != std::string::npos && line.find(wanted) != std::string::npos)
      return;
  }
}

struct UnderWay {
  int last_seq = 0;
  double sent_at = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) rt::bench::Fail("usage: report_trial DIRECTORY TRIALS REPORTS");
  const std::string directory = argv[1];
  const int trials = std::atoi(argv[2]);
  const int reports = std::atoi(argv[3]);
  std::string name = rt::bench::Variable("RT_TRIAL_ID");
  for (char& letter : name) letter = letter == '/' ? '-' : letter;
  rt::bench::TrialClient client;
  if (FILE* ready = std::fopen((directory + "/ready-" + name).c_str(), "w")) std::fclose(ready);
  while (CountReady(directory) < trials) ::usleep(1'000);

  const double start = Now();
  std::deque<UnderWay> under_way;
  std::vector<double> waited_ms;
  auto take = [&] {
    AwaitVerdict(client, under_way.front().last_seq);
    waited_ms.push_back((Now() - under_way.front().sent_at) * 1e3);
    under_way.pop_front();
  };
  for (int next = 1; next <= reports; next += kGroup) {
    const int count = std::min(kGroup, reports - next + 1);
    under_way.push_back({next + count - 1, Now()});
    client.Send(Group(next, count));
    if (under_way.size() >= kGroupsUnderWay) take();
  }
  while (!under_way.empty()) take();
  FILE* out = std::fopen((directory + "/done-" + name).c_str(), "w");
  if (out == nullptr) rt::bench::Fail("cannot write to " + directory);
  std::fprintf(out, "%.6f %.6f\n", start, Now());
  for (double ms : waited_ms) std::fprintf(out, "%.3f\n", ms);
  std::fclose(out);
}
