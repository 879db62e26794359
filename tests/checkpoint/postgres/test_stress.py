"""PostgreSQL: several processes that begin, fork, delete, prune, copy and sweep the same threads."""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
from pathlib import Path

from graphs import PATIENCE, line, thread

CHILD = Path(__file__).with_name("stress_child.py")
SEED = os.environ.get("MILEPOST_STRESS_SEED", "18")
SECONDS = float(os.environ.get("MILEPOST_STRESS_SECONDS", "4"))
WORKERS = 4


def test_threads_stay_whole_while_processes_delete_copy_and_prune_them(postgres, uri):
    paths = os.pathsep.join(filter(None, [str(CHILD.parents[2]), os.environ.get("PYTHONPATH")]))
    workers = [
        subprocess.Popen(
            [sys.executable, str(CHILD), uri, f"{SEED}-{n}", str(SECONDS)],
            env={**os.environ, "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for n in range(WORKERS)
    ]
    done: collections.Counter[str] = collections.Counter()
    failed = []
    for worker in workers:
        try:
            output, errors = worker.communicate(timeout=SECONDS + 2 * PATIENCE)
        finally:
            worker.kill()
        if worker.returncode:
            failed.append(errors)
        else:
            done.update(json.loads(output))
    print(f"seed {SEED}:", dict(sorted(done.items())))
    assert not failed, "\n".join(failed)
    assert done["begin"] > 0
    assert postgres.verify() == []
    graph = line("a", "b", "c").compile(checkpointer=postgres)
    for info in postgres.list_threads():
        assert list(graph.get_state_history(thread(info.thread_id)))
