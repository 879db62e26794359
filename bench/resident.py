"""In a process of its own: how much memory a conversation takes in InMemorySaver.

python -m bench.resident ROOT TURNS     prints bytes and seconds
"""

from __future__ import annotations

import gc
import sys
import time
import warnings
from pathlib import Path

from bench.measure import in_process

ROOT = Path(__file__).resolve().parent.parent


def measured(root: str, turns: int) -> tuple[int, float]:
    """Start a process that grows a conversation; its growth in bytes, and the time it took."""
    size, seconds = in_process("-m", "bench.resident", root, str(turns), folder=ROOT)
    return int(size), seconds


def main(root: str, turns: int) -> None:
    """Grow it here, and print."""
    import psutil  # type: ignore[import-untyped,unused-ignore]

    from bench.graphs import chat, on_thread, text, user_turn
    from bench.libraries import Library

    library = Library(root, root)
    process = psutil.Process()
    chat(library, library.memory()).invoke(user_turn(0), on_thread("warm"))
    saver = library.memory()
    graph = chat(library, saver)
    for number in range(2 * turns + 2):
        text(number)  # made once: they are the program's, not the saver's
    gc.collect()
    before, start = process.memory_info().rss, time.perf_counter()
    for number in range(turns):
        graph.invoke(user_turn(number), on_thread("chat"))
    seconds = time.perf_counter() - start
    gc.collect()
    print(process.memory_info().rss - before, seconds)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1], int(sys.argv[2]))
