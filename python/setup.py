"""Makes the wheel that brings `rt` along.

The programs go into the environment's bin, and the shared libraries that they need, but for those
of the C library, into its lib/rt, where the programs look for them. The programs are those of
RT_BIN, else of the source tree's build/release/bin, which is built when it is not there.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

from setuptools import setup
from setuptools.dist import Distribution

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # Before setuptools 70.1.
    from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = ("rt", "rt-cli", "rt-head", "rt-worker", "rt-shim")
# Those that the build has: rt-probe needs nvcc.
FOR_GPUS = ("rt-probe", "rt-gpu-suspend")
# Every Linux has these, and they must fit its loader.
OF_THE_SYSTEM = (
    "linux-vdso.", "ld-linux", "libc.", "libm.", "libdl.", "libpthread.", "librt.", "libresolv.",
)  # fmt: skip


def find_programs() -> pathlib.Path:
    """The directory of the programs."""
    given = os.environ.get("RT_BIN")
    folder = pathlib.Path(given) if given else HERE.parent / "build/release/bin"
    if not given and not all((folder / name).exists() for name in PROGRAMS):
        print("rt: building the programs; this takes minutes", file=sys.stderr, flush=True)
        for command in (["--preset", "release"], ["--build", "--preset", "release"]):
            subprocess.run(["cmake", *command], cwd=HERE.parent, check=True)
    missing = [name for name in PROGRAMS if not (folder / name).exists()]
    if missing:
        raise SystemExit(f"rt: {folder} lacks {', '.join(missing)}: build rt, or set RT_BIN")
    return folder


def libraries_of(program: pathlib.Path) -> dict[str, str]:
    """Name -> path of the shared libraries that a program needs."""
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    found = {}
    for line in done.stdout.splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        if not arrow or name.startswith(OF_THE_SYSTEM):
            continue
        if rest.startswith("not found"):
            raise SystemExit(f"rt: {program} needs {name}: run deploy/install-deps.sh")
        found[name] = rest.split(" (")[0]
    return found


def gather() -> list[tuple[str, list[str]]]:
    """What is installed beside the package, copied to build/wheel and stripped."""
    source, target = find_programs(), HERE / "build/wheel"
    shutil.rmtree(target, ignore_errors=True)
    (target / "bin").mkdir(parents=True)
    (target / "lib").mkdir()
    libraries: dict[str, str] = {}
    for_gpus = [name for name in FOR_GPUS if (source / name).exists()]
    if "rt-probe" not in for_gpus:
        print("rt: the wheel has no rt-probe: it was not built (no nvcc)", file=sys.stderr)
    for name in (*PROGRAMS, *for_gpus):
        shutil.copy2(source / name, target / "bin" / name)
        libraries.update(libraries_of(source / name))
    for name, path in libraries.items():
        shutil.copy(path, target / "lib" / name)
    if shutil.which("strip"):
        subprocess.run(["strip", "-g", *map(str, target.glob("*/*"))], check=True)
    files = [
        ("bin", sorted((target / "bin").iterdir())),
        ("lib/rt", sorted((target / "lib").iterdir())),
    ]
    return [(folder, [str(path.relative_to(HERE)) for path in paths]) for folder, paths in files]


class OnePlatform(bdist_wheel):
    """For every Python 3, and one kind of machine."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


class WithPrograms(Distribution):
    """Makes the wheel one of a platform."""

    def has_ext_modules(self) -> bool:
        return True


building = any(word in sys.argv for word in ("bdist_wheel", "install"))
setup(
    distclass=WithPrograms,
    cmdclass={"bdist_wheel": OnePlatform},
    data_files=gather() if building else [],
)
