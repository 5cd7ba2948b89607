#!/usr/bin/env python3
"""tidy.py must find each of these planted violations, and nothing in the tree that has none."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import tidy

CLEAN = {
    "head/core/events.h": "RT_FIELDS(NodeLost, node,\n  reason);\n"
        "using EventVariant =\n    std::variant<event::NodeLost>;\n",
    "docs/journal.md": "| `NodeLost` | node, reason | it is lost |\n",
    "proto/rt/store/journal.proto":
        "message NodeLost {\n}\n"
        "message Record {\n  oneof e {\n    NodeLost node_lost = 1;\n  }\n}\n",
    "tests/sim/auditor.cc": "void See(const event::NodeLost&) {}\n",
    "tests/sim/CMakeLists.txt": "add_executable(sim auditor.cc)\n",
    "python/rt/__init__.py": "def f():\n    from rt import tune\n",
    "python/rt/_json.py": "import json\n",
    "python/rt/tune/__init__.py": "from rt import _json\nfrom . import _space\n",
    "python/rt/tune/_space.py": "from rt._json import dump\n",
    "head/core/CMakeLists.txt": "rt_library(rt_head_core SOURCES step.cc)\n",
    "head/core/step.cc": '#include "head/core/core.h"\n#include <map>\n'
                         '// A mutex, in words only; system() too.\n'
                         '// It goes on for ever.\n'
                         'const char* kText = "unordered_map popen( --nursery goes on";\n',
}

# (what must be said, file, text). The file replaces or joins the clean tree.
PLANTED = [
    ("may not include head/loop", "head/core/step.cc", '#include "head/loop/head_loop.h"\n'),
    ("may not include head/core", "worker/core/x.h", '#include "head/core/core.h"\n'),
    ("may not include worker/launch", "cli/x.h", '#include "worker/launch/launcher.h"\n'),
    ("<mutex> in a pure folder", "common/search/x.h", "#include <mutex>\n"),
    ("unordered_map in a pure folder", "common/decide/x.h", "std::unordered_map<int, int> m;\n"),
    ("getenv in a pure folder", "common/spec/x.h", "inline auto F() { return getenv(n); }\n"),
    ("std::chrono in a pure folder", "head/core/x.h", "std::chrono::seconds s;\n"),
    ("may not include head/view", "head/core/x.h", '#include "head/view/view.h"\n'),
    ("State& in head/view/", "head/view/x.h", "void F(const Core& core, State& state);\n"),
    ("Draft in head/view/", "head/view/x.h", "void F(Draft& draft);\n"),
    ("a pure folder includes sqlite3.h", "head/core/x.h", "#include <sqlite3.h>\n"),
    ("a pure folder includes unistd.h", "head/core/x.h", "#include <unistd.h>\n"),
    ("gRPC only in", "head/loop/x.h", "#include <grpcpp/grpcpp.h>\n"),
    ("gRPC only in", "worker/loop/x.h", '#include "rt/v1/worker.grpc.pb.h"\n'),
    ("protobuf only in", "head/sinks/x.h", '#include "rt/v1/common.pb.h"\n'),
    ("the journal's protobuf only in", "cli/x.h", '#include "rt/store/journal.pb.h"\n'),
    ("SQLite only in", "head/sinks/x.h", "#include <sqlite3.h>\n"),
    ("yaml-cpp only in", "cli/x.h", "#include <yaml-cpp/yaml.h>\n"),
    ("CLI11 only in", "cli/commands/x.h", "#include <CLI/CLI.hpp>\n"),
    ("Eigen only in", "common/search/x.h", "#include <Eigen/Dense>\n"),
    ("rapidjson only in", "common/base/x.h", "#include <rapidjson/document.h>\n"),
    ("system(): argv", "cli/x.h", "inline int F() { return system(command); }\n"),
    ("popen(): argv", "common/run/x.h", "inline auto F() { return ::popen(a, b); }\n"),
    ("RE2 only in", "worker/loop/x.h", "#include <re2/re2.h>\n"),
    ("#include <regex>: a user's pattern", "worker/loop/x.h", "#include <regex>\n"),
    ("std::regex_search: a user's", "cli/x.h", "bool b = std::regex_search(text, pattern);\n"),
    ("501 lines", "cli/x.h", "\n" * 501),
    ("101 columns", "cli/x.h", "//" + "x" * 99 + "\n"),
    ("a function of 72 lines", "cli/x.h", "namespace a {\nvoid F() {\n" + "f();\n" * 70 + "}\n}\n"),
    ("a function of 72 lines", "cli/y.h", "X::X(int a)\n    : a_{a} {\n" + "f();\n" * 70 + "}\n"),
    ("left-over mark", "cli/x.h", "// TO" "DO: later\n"),
    ("a hidden test", "tests/unit/x.h", 'TEST_CASE("a [b]", "[.][slow]") {\n}\n'),
    ("a hidden test", "tests/unit/x.h", 'TEST_CASE("a", "[x][!mayfail]") {\n}\n'),
    ("'goes on': docs/glossary.md", "cli/x.h", "// The trial goes on.\n"),
    ("'makes room': docs/glossary.md", "head/core/x.h", "// A trial makes room.\n"),
    ("'for ever': docs/glossary.md", "cli/x.h", 'const char* kText = "it waits for ever";\n'),
    ("'let go': docs/glossary.md", "head/core/step.cc", 'const char* kText = "let go of it";\n'),
    ("may not include cli/commands", "cli/client/x.h", '#include "cli/commands/common.h"\n'),
    ("may not include cli (cli/x.h)", "cli/render/y.h", '#include "cli/x.h"\n'),
    ("rt._json may not import rt.tune", "python/rt/_json.py", "def f():\n    import rt.tune\n"),
    ("cycle: rt.tune._space -> rt.tune._space", "python/rt/tune/_space.py",
     "from . import _space\n"),
    ("is in no CMakeLists.txt", "cli/forgotten.cc", "int x;\n"),
    ("other fields of NodeLost", "docs/journal.md", "| `NodeLost` | node | it is lost |\n"),
    ("no row for NodeLost", "docs/journal.md", "NodeLost\n"),
    ("no message NodeLost", "proto/rt/store/journal.proto", "message Record {\n}\n"),
    ("NodeLost is not in Record", "proto/rt/store/journal.proto", "message NodeLost {\n}\n"),
    ("does not mention NodeLost", "tests/sim/auditor.cc", "// NodeLost\n"),
]


def check(files: dict[str, str]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tidy.check_all(Path(folder))


def main() -> int:
    failed = [f"the clean tree is accused: {line}" for line in check(CLEAN)]
    for wanted, name, text in PLANTED:
        found = check({**CLEAN, name: text})
        if not any(wanted in line and line.startswith(name) for line in found):
            failed.append(f"not found: {wanted!r} in {name}; found {found}")
    print("\n".join(failed) if failed else f"tidy found all {len(PLANTED)} planted violations")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
