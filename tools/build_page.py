"""Builds the page of `milepost ui` from `page/` into the package, and writes down from what.

    python tools/build_page.py            install what package-lock.json names, check types, build
    python tools/build_page.py --check    only say whether the built files belong to the sources

Node and npm are needed to build, and neither to use the page nor to test it.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "page"
BUILT = ROOT / "src" / "milepost" / "server" / "_page"
SIGNED = "sources.txt"
"""The file that says from which sources, and into which files, the page was built."""


def files_in(folder: Path) -> list[Path]:
    """The files of a folder, without what npm puts there."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in found if "node_modules" not in path.parts)


def digest(folder: Path, leaving_out: str = "") -> str:
    """A hash over the names and contents of a folder's files."""
    summed = hashlib.sha256()
    for path in files_in(folder):
        name = path.relative_to(folder).as_posix()
        if name != leaving_out:
            summed.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return summed.hexdigest()


def signature(built: Path = BUILT) -> str:
    """What the signed file should hold."""
    return f"sources {digest(SOURCES)}\nbuilt {digest(built, SIGNED)}\n"


def is_current() -> bool:
    """Whether the built files are those of the present sources."""
    signed = BUILT / SIGNED
    return signed.is_file() and signed.read_text("utf-8") == signature()


def build(out: Path = BUILT) -> None:
    """Builds into a folder, whatever is there before."""
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("npm is needed to build the page: install Node.js 20 or later.")
    if not (SOURCES / "node_modules").is_dir():
        # Not `npm ci`, which wants the compilers of every platform in the lock file.
        subprocess.run([npm, "install", "--no-save"], cwd=SOURCES, check=True)
    subprocess.run([npm, "run", "--silent", "check"], cwd=SOURCES, check=True)
    vite = [npm, "exec", "--offline", "--", "vite", "build", "--outDir", str(out), "--emptyOutDir"]
    subprocess.run([*vite, "--logLevel", "warn"], cwd=SOURCES, check=True)
    (out / SIGNED).write_text(signature(out), "utf-8")


def main() -> None:
    """The command."""
    plain = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("--check", action="store_true", help="build nothing")
    if parser.parse_args().check:
        sys.exit(None if is_current() else "The built page is not that of its sources.")
    build()


if __name__ == "__main__":
    main()
