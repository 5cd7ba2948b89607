#!/usr/bin/env python3
"""What the compiler does not check: layers, banned tokens, lengths, and that nothing is forgotten.

    tidy.py [ROOT]   prints one line per violation ("file:line: what"); exit code 1 if there is any

On Debian every header is reachable from everywhere, so the layers of docs/architecture.md hold
only because this test holds them. self_test.py plants one violation of each rule.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import python_imports

FILE_LINES_MAX = 500
COLUMNS_MAX = 100
FUNCTION_LINES_MAX = 70

WORKER_ROOMS = {"worker/trees", "worker/launch", "worker/session", "worker/loop"}

# Folder -> project folders that it may include besides itself; "common/*" is all of them below
# common. A folder that is not here (tests, examples, cmake) may include anything.
LAYERS: dict[str, set[str]] = {
    "common/base": set(),
    "common/spec": {"common/base"},
    "common/run": {"common/base"},
    "common/wire": {"common/base"},
    "common/yaml": {"common/base", "common/spec"},
    "common/aws": {"common/base", "common/run"},
    "common/cas": {"common/base", "common/run", "common/aws"},
    "common/programs": {"common/base", "common/run", "common/cas"},
    "common/provider": {"common/base", "common/spec", "common/run", "common/aws"},
    "common/rpc": {"common/base", "common/run", "common/spec", "common/cas", "common/wire",
                   "common/elastic"},
    "common/search": {"common/base", "common/spec"},
    "common/decide": {"common/base", "common/spec"},
    "common/elastic": {"common/base", "common/spec", "common/search"},
    "common/algorithms": {"common/base", "common/spec", "common/search", "common/decide"},
    "head/autoscale": {"common/base", "common/spec"},
    "head/core": {"common/base", "common/spec", "common/search", "common/decide",
                  "common/algorithms", "common/elastic", "head/autoscale"},
    "head/view": {"common/base", "common/spec", "common/algorithms", "head/core"},
    "head/journal": {"common/base", "common/spec", "common/run", "common/cas", "common/wire",
                     "head/core"},
    "head/loop": {"common/base", "common/spec", "common/run", "head/core", "head/journal"},
    "head/sinks": {"common/base", "common/spec", "common/run", "head/core", "head/view",
                   "head/journal", "head/loop"},
    "head/service": {"common/base", "common/spec", "common/run", "common/cas", "common/rpc",
                     "head/core", "head/view", "head/journal", "head/loop", "head/sinks",
                     "common/provider"},
    "head": {"common/*", "head/*"},
    "worker/core": {"common/base", "common/spec"},
    "worker/shim": {"common/run"},
    "worker/limits": {"common/base", "common/spec", "common/run"},
    "worker/trees": {"common/base", "common/run", "common/cas"},
    "worker/launch": {"common/base", "common/spec", "common/run", "common/cas", "common/wire",
                      "worker/core", "worker/shim", "worker/limits", "worker/trees"},
    "worker/session": {"common/base", "common/spec", "common/elastic", "common/run", "common/cas",
                       "worker/core", "worker/shim", "worker/trees", "worker/launch"},
    "worker/loop": {"common/base", "common/spec", "common/run", "common/cas", "worker/core",
                    "worker/limits", "worker/trees", "worker/launch", "worker/session"},
    "worker/checkpoint": {"common/base", "common/spec", "common/run", "common/cas", "common/rpc",
                          "worker/core", *WORKER_ROOMS},
    "worker/notice": {"common/base", "common/run"},
    "worker/link": {"common/base", "common/spec", "common/run", "common/cas", "common/rpc",
                    "worker/core", *WORKER_ROOMS, "worker/checkpoint", "worker/notice"},
    "worker/gpu": {"common/base", "common/spec", "common/run", "worker/core"},
    "worker": {"common/*", "worker/*"},
    "cli/invocation.h": {"common/base"},
    "cli/render": {"common/base", "common/spec", "common/yaml", "common/algorithms",
                   "cli/invocation.h"},
    "cli/client": {"common/*", "cli/invocation.h", "cli/render"},
    "cli/download": {"common/*", "cli/invocation.h", "cli/render", "cli/client"},
    "cli/hosts": {"common/*", "cli/invocation.h", "cli/render", "cli/client"},
    "cli/cloud": {"common/*", "cli/invocation.h", "cli/render", "cli/client", "cli/hosts"},
    "cli": {"common/*", "cli/invocation.h", "cli/render", "cli/client",
            "cli/download", "cli/hosts", "cli/cloud"},
    "cli/bridge": {"common/*", "cli/invocation.h", "cli/render", "cli/client", "cli/download",
                   "cli"},
    "cli/commands": {"common/*", "cli/invocation.h", "cli/render", "cli/client", "cli/download",
                     "cli", "cli/bridge", "cli/hosts", "cli/cloud"},
    "cli/line": {"common/*", "cli/invocation.h", "cli/render", "cli/client", "cli/commands", "cli"},
    "cli/main.cc": {"common/*", "cli/render", "cli/line", "cli", "cli/hosts"},
}

# Folders that know no clock, thread, socket, file or generator.
PURE = {"head/core", "head/view", "common/search", "common/decide", "common/algorithms",
        "common/elastic", "head/autoscale", "worker/core", "common/spec"}
PURE_STD_BANNED = {
    "thread", "mutex", "shared_mutex", "condition_variable", "future", "atomic", "random", "chrono",
    "ctime", "time.h", "unordered_map", "unordered_set", "fstream", "iostream", "filesystem",
    "semaphore", "latch", "barrier", "stop_token", "cstdio",
}
PURE_TOKENS_BANNED = re.compile(
    r"\b(unordered_\w+|getenv|secure_getenv|gettimeofday|clock_gettime|random_device|mt19937\w*|"
    r"ifstream|ofstream|fopen|std::(?:chrono|thread|mutex|jthread|async|rand)|srand)\b"
    r"|\btime\s*\(\s*(?:nullptr|NULL|0)\s*\)")

# head/view only reads: it names neither what changes the state nor a state that is not const.
READS_ONLY = "head/view/"
WRITES = re.compile(r"\bDraft\b|\b(?:Step|Apply)\s*\("
                    r"|(?<!const )\b(?:Core|World|State|Soft|Index|Experiment|Trial|Job|Node|Runs)"
                    r"\s*&")

# Third-party header -> folders ("x/" for all below) and files that may include it.
THIRD_PARTY: list[tuple[str, re.Pattern[str], tuple[str, ...]]] = [
    ("gRPC", re.compile(r"^(grpc|grpcpp)/|\.grpc\.pb\.h$"),
     ("common/rpc/", "head/service/", "head/main.cc", "worker/link/", "worker/checkpoint/",
      "worker/main.cc", "cli/")),
    ("the journal's protobuf", re.compile(r"rt/store/\w+\.pb\.h$"), ("head/journal/",)),
    ("protobuf", re.compile(r"^google/protobuf/|rt/v1/\w+\.pb\.h$"),
     ("common/rpc/", "common/wire/", "head/service/", "head/journal/", "head/main.cc",
      "worker/link/", "worker/checkpoint/", "worker/main.cc", "cli/")),
    ("SQLite", re.compile(r"^sqlite3"), ("head/journal/",)),
    ("libpq", re.compile(r"^libpq"), ("head/journal/",)),
    ("zstd", re.compile(r"^zstd"), ("head/journal/", "common/cas/")),
    ("yaml-cpp", re.compile(r"^yaml-cpp/"), ("common/yaml/",)),
    ("pugixml", re.compile(r"^pugixml"), ("common/aws/",)),
    ("CLI11", re.compile(r"^CLI/"), ("cli/line/",)),
    ("Eigen", re.compile(r"^Eigen/"), ("common/search/evolution.cc",)),
    ("rapidjson", re.compile(r"^rapidjson/"), ("common/base/json.cc",)),
    ("RE2", re.compile(r"^re2/"), ("common/base/pattern.cc",)),
]
# Files where a test may use what production code may not.
THIRD_PARTY_FREE = ("tests/",)

SHELL_TOKENS = re.compile(r"(?<![\w.>:])(?:std::|::)?(system|popen)\s*\(")
# Its time and its stack grow without bound with what users write: common/base/pattern.h.
REGEX_TOKENS = re.compile(r"std::(?:basic_)?w?regex\w*|#\s*include\s*<regex(?:\.h)?>"
                          r"|\bregcomp\s*\(")
MARKS = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3, "HA" + "CK"]) + r")\b")
HIDDEN_TEST = re.compile(r'TEST_CASE\([^;{]*?"[^";{]*\[(?:\.|!(?:hide|mayfail|shouldfail))')
# Words of an earlier vocabulary; docs/glossary.md has those to use. In comments of headers and in
# texts for users; a text of cli/ may still "go on".
WORDS_BANNED = re.compile(
    r"(?<!--)\bnurser(?:y|ies)\b|\blets? go\b|\bstands? in line\b|\bin line for\b|\bfor ever\b"
    r"|\b(?:is|are) to go\b|\bsomebody\b", re.I)
WORDS_BANNED_IN_COMMENTS = re.compile(
    WORDS_BANNED.pattern + r"|\bgo(?:es)? on\b|\bmakes? room\b|\btrouble\b", re.I)
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"')
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
SKIPPED_FOLDERS = {"build", ".git", "__pycache__", "node_modules", ".venv", "venv"}
TEXT = {".cc", ".h", ".c", ".py", ".sh", ".proto", ".cmake", ".md", ".txt", ".yaml", ".json"}
BODY_EXEMPT = re.compile(r"^(?:template\s*<.*>\s*)?(?:inline\s+|typedef\s+|export\s+)*"
                         r"(?:namespace|class|struct|union|enum|extern|concept)\b", re.S)


class Tree:
    """The files of a checkout and the violations found in them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.found: list[str] = []
        self.files: dict[str, str] = {}
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(f for f in folders if f not in SKIPPED_FOLDERS)
            for name in sorted(names):
                path = Path(folder) / name
                if path.suffix in TEXT and path.is_file():
                    relative = path.relative_to(root).as_posix()
                    self.files[relative] = path.read_text(encoding="utf-8", errors="replace")

    def say(self, path: str, line: int, what: str) -> None:
        self.found.append(f"{path}:{line}: {what}")

    def cpp(self) -> dict[str, str]:
        return {p: t for p, t in self.files.items() if p.endswith((".cc", ".h"))}


def strip(text: str) -> str:
    """C++ without comments and the contents of literals; line numbers stay."""
    pattern = re.compile(
        r'R"([^\s()\\]{0,16})\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])*'", re.S)

    def blank(match: re.Match[str]) -> str:
        whole = match.group(0)
        lines = "\n" * whole.count("\n")
        return lines if whole.startswith("/") else '""' + lines

    return pattern.sub(blank, text)


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def folder_of(path: str) -> str | None:
    """The layer that a file belongs to; None when it has none."""
    if path in LAYERS:
        return path
    parts = path.split("/")
    for depth in (2, 1):
        name = "/".join(parts[:depth])
        if len(parts) > depth and name in LAYERS:
            return name
    return None


def check_layers(tree: Tree) -> None:
    for path, text in tree.cpp().items():
        folder = folder_of(path)
        for match in INCLUDE.finditer(text):
            kind, header = match.groups()
            line = line_of(text, match.start(1))
            check_third_party(tree, path, line, header)
            if folder is None:
                continue
            target = folder_of(header)
            if target is not None and target != folder:
                allowed = LAYERS[folder]
                if target not in allowed and target.split("/")[0] + "/*" not in allowed:
                    tree.say(path, line, f"{folder} may not include {target} ({header})")
            if folder in PURE:
                check_pure_include(tree, path, line, kind, header)
        if folder in PURE:
            code = strip(text)
            for match in PURE_TOKENS_BANNED.finditer(code):
                tree.say(path, line_of(code, match.start()), f"{match.group(0)} in a pure folder")


def check_reads_only(tree: Tree) -> None:
    for path, text in tree.cpp().items():
        if path.startswith(READS_ONLY):
            code = strip(text)
            for match in WRITES.finditer(code):
                tree.say(path, line_of(code, match.start()),
                         f"{match.group(0)} in {READS_ONLY}, which only reads the state")


def check_third_party(tree: Tree, path: str, line: int, header: str) -> None:
    if path.startswith(THIRD_PARTY_FREE):
        return
    for name, pattern, homes in THIRD_PARTY:
        if pattern.search(header):
            if not any(path == h or (h.endswith("/") and path.startswith(h)) for h in homes):
                tree.say(path, line, f"{name} only in {', '.join(homes)} ({header})")
            return


def check_pure_include(tree: Tree, path: str, line: int, kind: str, header: str) -> None:
    if header in PURE_STD_BANNED:
        tree.say(path, line, f"<{header}> in a pure folder")
    elif folder_of(header) is None and not header.startswith("absl/status/"):
        numeric = path.startswith(("common/search/", "head/elastic/"))
        if numeric and header.startswith(("Eigen/", "nlopt")):
            return
        if kind == '"' or "/" in header or "." in header:
            tree.say(path, line, f"a pure folder includes {header}")


def check_shell(tree: Tree) -> None:
    for path, text in tree.cpp().items():
        code = strip(text)
        for match in SHELL_TOKENS.finditer(code):
            tree.say(path, line_of(code, match.start()), f"{match.group(1)}(): argv, never a shell")


def check_regex(tree: Tree) -> None:
    for path, text in tree.cpp().items():
        code = strip(text)
        for match in REGEX_TOKENS.finditer(code):
            tree.say(path, line_of(code, match.start()),
                     f"{match.group(0)}: a user's pattern is a Pattern (common/base/pattern.h)")


def check_lengths(tree: Tree) -> None:
    for path, text in tree.files.items():
        if not path.endswith((".cc", ".h", ".py", ".sh", ".proto")):
            continue
        lines = text.splitlines()
        if len(lines) > FILE_LINES_MAX:
            tree.say(path, len(lines), f"{len(lines)} lines; at most {FILE_LINES_MAX}")
        if path.endswith((".cc", ".h", ".py")):
            for number, line in enumerate(lines, 1):
                if len(line) > COLUMNS_MAX:
                    tree.say(path, number, f"{len(line)} columns; at most {COLUMNS_MAX}")
    for path, text in tree.cpp().items():
        for start, length in bodies(text):
            if length > FUNCTION_LINES_MAX:
                tree.say(path, start, f"a function of {length} lines; at most {FUNCTION_LINES_MAX}")


def bodies(text: str) -> list[tuple[int, int]]:
    """(first line, lines) of every outermost function body: by braces, so a heuristic."""
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", strip(text), flags=re.M)
    # Blanked directives keep their own line ends but lose those of their continuations: recount.
    if code.count("\n") != text.count("\n"):
        code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
                      lambda m: "\n" * m.group(0).count("\n"), strip(text), flags=re.M)
    found: list[tuple[int, int]] = []
    scopes: list[int | None] = []  # The first line of a body, None for a namespace or a class.
    inside = 0
    start = 0
    for match in re.finditer(r"[{};]", code):
        sign = match.group(0)
        if sign == "{":
            head = code[start:match.start()].strip()
            head = re.sub(r"^(?:public|private|protected)\s*:\s*", "", head)
            container = inside == 0 and bool(BODY_EXEMPT.match(head)) and not re.search(
                r"\)\s*(?:const|noexcept|override)?$", head)
            value = inside == 0 and head.endswith("=")
            scopes.append(None if container or value else line_of(code, match.start()))
            inside += scopes[-1] is not None
        elif sign == "}" and scopes:
            first = scopes.pop()
            if first is not None:
                inside -= 1
                if inside == 0:
                    found.append((first, line_of(code, match.start()) - first + 1))
        start = match.end()
    return found


def check_marks(tree: Tree) -> None:
    for path, text in tree.files.items():
        for match in MARKS.finditer(text):
            tree.say(path, line_of(text, match.start()), f"left-over mark {match.group(0)}")


def check_hidden_tests(tree: Tree) -> None:
    """No Catch2 test is left out, or allowed to fail, by its tags."""
    for path, text in tree.cpp().items():
        for match in HIDDEN_TEST.finditer(text):
            tree.say(path, line_of(text, match.start()), "a hidden test: let it run, or remove it")


def check_words(tree: Tree) -> None:
    """Header comments and texts keep to the glossary."""
    for path, text in tree.cpp().items():
        if path.startswith("tests/"):
            continue
        for piece in COMMENT_OR_TEXT.finditer(text):
            is_comment = piece.group(0).startswith("//")
            if is_comment and not path.endswith(".h"):
                continue
            banned = WORDS_BANNED_IN_COMMENTS if is_comment else WORDS_BANNED
            for match in banned.finditer(piece.group(0)):
                tree.say(path, line_of(text, piece.start()),
                         f"'{match.group(0)}': docs/glossary.md has the word to use")


def check_targets(tree: Tree) -> None:
    """Every .cc stands in the CMakeLists.txt (or .cmake) of its folder or of one above."""
    lists = {p: t for p, t in tree.files.items()
             if p.endswith(("CMakeLists.txt", ".cmake"))}
    for path in tree.files:
        if not path.endswith(".cc"):
            continue
        known = False
        for name, text in lists.items():
            base = os.path.dirname(name)
            if base and not path.startswith(base + "/"):
                continue
            relative = path[len(base) + 1:] if base else path
            for spelling in {relative, path}:
                word = r"(?:^|[\s(\"}/])" + re.escape(spelling) + r"(?:$|[\s)\"])"
                if re.search(word, text, re.M):
                    known = True
        if not known:
            tree.say(path, 1, "is in no CMakeLists.txt")


def check_events(tree: Tree) -> None:
    """Every event is documented, has a message in the journal's schema, and is audited."""
    header = tree.files.get("head/core/events.h", "")
    block = re.search(r"using EventVariant\s*=(.*?);", header, re.S)
    if not block:
        tree.say("head/core/events.h", 1, "no `using EventVariant = …`")
        return
    headers = "".join(text for path, text in tree.files.items()
                      if re.match(r"head/core/\w*events\.h$", path))
    docs = tree.files.get("docs/journal.md", "")
    proto = tree.files.get("proto/rt/store/journal.proto", "")
    stored = "".join(text for path, text in tree.files.items()
                     if re.match(r"proto/rt/store/\w*\.proto$", path))
    auditor = "".join(strip(text) for path, text in tree.files.items()
                      if re.match(r"tests/sim/auditor\w*\.cc$", path))
    record = re.search(r"message Record \{.*?\n\}", proto, re.S)
    for name in re.findall(r"event::(\w+)", block.group(1)):
        row = re.search(rf"^\| `{name}` \| ([^|\n]*)", docs, re.M)
        fields = re.search(rf"RT_FIELDS\({name}, ([^)]*)\)", headers)
        if not row:
            tree.say("docs/journal.md", 1, f"no row for {name}")
        elif fields and re.split(r",\s*", fields.group(1)) != row.group(1).strip().split(", "):
            tree.say("docs/journal.md", line_of(docs, row.start()), f"other fields of {name}")
        if not re.search(rf"^message {name} \{{", stored, re.M):
            tree.say("proto/rt/store/journal.proto", 1, f"no message {name}")
        if not record or not re.search(rf"\b{name} \w+ = \d+;", record.group(0)):
            tree.say("proto/rt/store/journal.proto", 1, f"{name} is not in Record")
        if not re.search(rf"\b{name}\b", auditor):
            tree.say("tests/sim/auditor.cc", 1, f"does not mention {name}")


def check_imports(tree: Tree) -> None:
    for path, line, what in python_imports.check_python_imports(tree.files):
        tree.say(path, line, what)


def check_all(root: Path) -> list[str]:
    tree = Tree(root)
    for check in (check_layers, check_reads_only, check_shell, check_regex, check_lengths,
                  check_marks, check_hidden_tests, check_words, check_targets, check_events,
                  check_imports):
        check(tree)
    return sorted(set(tree.found))


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2])
    found = check_all(root)
    print("\n".join(found) if found else "tidy: nothing to complain about")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
