"""In a process of its own: how much it grows while it serves short threads one after the other.

python -m bench.served ROOT KIND WHERE THREADS   prints bytes after half of them, and after all
"""

from __future__ import annotations

import gc
import sys
import warnings
from pathlib import Path

from bench.measure import in_process

ROOT = Path(__file__).resolve().parent.parent


def measured(root: str, kind: str, where: object, threads: int) -> tuple[int, int]:
    """Start a process that serves; its growth after half of the threads, and after all."""
    arguments = (root, kind, str(where), str(threads))
    half, whole = in_process("-m", "bench.served", *arguments, folder=ROOT)
    return int(half), int(whole)


def main(root: str, kind: str, told: str, threads: int) -> None:
    """Serve here, and print."""
    import psutil  # type: ignore[import-untyped,unused-ignore]

    from bench.graphs import on_thread, spoken_turn, talk, text
    from bench.libraries import Library
    from bench.places import MEMORY, POSTGRES, REDIS, SQLITE

    places = {"memory": MEMORY, "sqlite": SQLITE, "postgres": POSTGRES, "redis": REDIS}
    library = Library(root, root)
    process = psutil.Process()
    for number in range(4):
        text(number)
    where = Path(told) if kind == "sqlite" else told
    with places[kind].open(library, where) as saver:
        graph = talk(library, saver)
        for number in range(20):
            graph.invoke(spoken_turn(0), on_thread(f"warm {number}"))
        gc.collect()
        before, grown = process.memory_info().rss, []
        for number in range(threads):
            graph.invoke(spoken_turn(0), on_thread(str(number)))
            if number + 1 in (threads // 2, threads):
                gc.collect()
                grown.append(process.memory_info().rss - before)
        print(*grown)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
