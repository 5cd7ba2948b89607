#include "search/real_problem.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "common/base/check.h"

namespace rt::bench {
namespace {

struct Task {
  const char *name, *space;
  double units, best;
};

// The spaces of real_work.py, sorted by name, and the best errors that are known.
constexpr Task kTasks[] = {
    {"mlp",
     R"({"alpha":{"loguniform":[1e-6,10]},"batch":{"choice":[16,32,64,128,256]},)"
     R"("lr":{"loguniform":[1e-5,1]},"width":{"lograndint":[4,257]}})",
     27, 1 - 0.98889},
    {"torch",
     R"({"batch":{"choice":[16,32,64,128,256]},"channels":{"lograndint":[2,33]},)"
     R"("decay":{"loguniform":[1e-6,1]},"dropout":{"uniform":[0,0.9]},)"
     R"("lr":{"loguniform":[1e-5,1]},"momentum":{"uniform":[0,0.99]}})",
     27, 1 - 0.99167},
    {"xgboost",
     R"({"colsample_bytree":{"uniform":[0.2,1]},"eta":{"loguniform":[1e-3,1]},)"
     R"("lambda":{"loguniform":[1e-3,1e3]},"max_depth":{"randint":[1,11]},)"
     R"("min_child_weight":{"loguniform":[0.1,100]},"subsample":{"uniform":[0.2,1]}})",
     81, 1 - 0.98243},
};
constexpr double kWithin = 0.005;

// real_epochs.py, which ends when its input does.
class Program {
 public:
  Program(const std::string& python, const std::string& task) {
    int ends[2];
    RT_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    const pid_t pid = fork();
    RT_CHECK(pid >= 0);
    if (pid == 0) {
      dup2(ends[1], STDIN_FILENO);
      dup2(ends[1], STDOUT_FILENO);
      execlp(python.c_str(), python.c_str(), RT_BENCH_FOLDER "/real_epochs.py", "serve",
             task.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    pid_ = pid;
    out_ = fdopen(ends[0], "w");
    in_ = fdopen(dup(ends[0]), "r");
    RT_CHECK(out_ != nullptr && in_ != nullptr);
  }
  ~Program() {
    shutdown(fileno(out_), SHUT_WR);
    std::fclose(out_);
    std::fclose(in_);
    waitpid(pid_, nullptr, 0);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void Tell(const std::string& line) {
    std::fprintf(out_, "%s\n", line.c_str());
    std::fflush(out_);
  }
  double Read() {
    char line[64];
    if (std::fgets(line, sizeof line, in_) != nullptr) return std::strtod(line, nullptr);
    std::fprintf(stderr, "real_epochs.py has ended; does its Python have what it imports?\n");
    std::exit(1);
  }

 private:
  pid_t pid_ = 0;
  std::FILE *out_ = nullptr, *in_ = nullptr;
};

class RealCurve final : public Curve {
 public:
  RealCurve(std::shared_ptr<Program> program, size_t number, const std::vector<double>& values)
      : program_(std::move(program)), number_(std::to_string(number)) {
    std::string line = "new " + number_;
    char text[32];
    for (const double value : values) {
      std::snprintf(text, sizeof text, " %.17g", value);
      line += text;
    }
    program_->Tell(line);
  }
  ~RealCurve() override { program_->Tell("end " + number_); }

  double Next() override {
    program_->Tell("next " + number_);
    return 1 - program_->Read();
  }

 private:
  const std::shared_ptr<Program> program_;
  const std::string number_;
};

}  // namespace

FidelityProblem RealProblem(const std::string& task, const std::string& python) {
  for (const Task& each : kTasks) {
    if (task != each.name) continue;
    FidelityProblem problem{.name = "real_" + task, .space = each.space, .units = each.units};
    problem.target = each.best + kWithin;
    problem.train = [program = std::make_shared<Program>(python, task), count = size_t{0}](
                        const std::vector<double>& x, const Rng&) mutable {
      return std::make_unique<RealCurve>(program, count++, x);
    };
    return problem;
  }
  std::fprintf(stderr, "%s: real_work.py has no such training\n", task.c_str());
  std::exit(2);
}

}  // namespace rt::bench
