"""Manifests: what a checkpoint says besides its large values, stored as what changed."""

import random
from typing import Any

import pytest

from graphs import thread
from milepost.checkpoint._contract.step_saver import Fence, NewCheckpoint, StepCommit
from milepost.checkpoint._sql import manifest as manifests
from milepost.checkpoint._sql.manifest import Manifest
from milepost.checkpoint.base import empty_checkpoint
from milepost.checkpoint.sqlite import SqliteSaver


def plain(frame: Manifest) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    return dict(frame.versions), dict(frame.seen), dict(frame.inline)


def test_a_manifest_with_its_changes_is_what_was_stored():
    pick = random.Random(7)
    versions = {f"c{n}": "0" for n in range(9)}
    seen: dict[str, Any] = {"a": {"c0": "0"}}
    inline: dict[str, Any] = dict.fromkeys(versions, False)
    manifest = Manifest(dict(versions), dict(seen), dict(inline))
    for step in range(1, 300):
        names = {f"c{pick.randrange(9 + step // 50)}" for _ in range(3)}
        node = f"n{pick.randrange(20)}"
        changed = {name: str(step) for name in names}
        held = {name: pick.choice([None, False, ["k", b"%d" % step]]) for name in names}
        versions |= changed
        inline |= held
        seen[node] = dict(changed)
        changes = manifests.changes(manifest, versions, seen, held, [node])
        assert changes is not None
        before = plain(manifest)
        later = manifest.merged(changes)
        assert plain(manifest) == before
        assert plain(later) == (versions, seen, inline)
        manifest = later
    assert manifest.large() == [(n, versions[n]) for n, held in inline.items() if held is False]


IDS = [f"1f000000-0000-6000-8000-{number:012}" for number in range(3)]


def prepared(saver: SqliteSaver, fence: Fence, at: int, versions: dict[str, Any], **changed: Any):
    checkpoint = {**empty_checkpoint(), "id": IDS[at], "channel_versions": versions}
    metadata: Any = {"source": "loop", "step": 100 + at, "parents": {}}  # no longer stored whole
    new = NewCheckpoint.of(checkpoint, metadata, changed, dict)  # type: ignore[arg-type]
    return saver.prepare(StepCommit("t", "", IDS[at - 1] if at else None, [], new, fence))


def test_a_manifest_may_be_completed_while_the_next_one_is_made(path, monkeypatch):
    with SqliteSaver.from_conn_string(path) as saver:
        assert saver.commit([prepared(saver, Fence(None), 0, {"a": "1", "b": "1"}, a=1, b=2)])
    merged = Manifest.merged
    with SqliteSaver.from_conn_string(path) as saver:  # which has forgotten what the parent holds
        fence = Fence(IDS[0])
        first = prepared(saver, fence, 1, {"a": "2", "b": "1"}, a=3)

        def meanwhile(frame: Manifest, *changes: Any) -> Manifest:
            made = merged(frame, *changes)
            assert saver.commit([first]) == [None]
            return made

        monkeypatch.setattr(Manifest, "merged", meanwhile)
        second = prepared(saver, fence, 2, {"a": "3", "b": "1"}, a=4)
        assert saver.commit([second]) == [None]
        found = saver.get_tuple(thread("t"))
        assert found is not None
        assert found.checkpoint["channel_values"] == {"a": 4, "b": 2}


@pytest.mark.parametrize("rest", ["+00:00", ".000000+00:00", ".5+00:00", ".000001+00:00", "Z", ""])
def test_a_time_is_read_as_the_text_that_was_put(path, rest):
    times = [f"2026-11-17T10:20:30{rest}" for rest in (".000001+00:00", rest, ".5+01:00")]
    with SqliteSaver.from_conn_string(path) as saver:
        for at, time in enumerate(times):
            checkpoint = {**empty_checkpoint(), "id": IDS[at], "ts": time}
            saver.put(thread("t"), checkpoint, {"source": "loop", "step": at}, {})  # type: ignore[arg-type]
    with SqliteSaver.from_conn_string(path) as saver:
        assert [found.checkpoint["ts"] for found in saver.list(thread("t"))] == times[::-1]
