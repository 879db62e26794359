"""References: how threads and checkpoints are named in one text, and found by it; tags."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from milepost.checkpoint._contract.records import Place, place_of
from milepost.inspect._errors import (
    AmbiguousReferenceError,
    BadReferenceError,
    StateNotFoundError,
    ThreadNotFoundError,
    told_plainly,
)
from milepost.inspect._reading import ancestors, load

if TYPE_CHECKING:
    from milepost.checkpoint._contract.records import CheckpointTuple
    from milepost.inspect._database import Database
    from milepost.inspect._records import ThreadRow

_BACK = re.compile(r"~(\d*)\Z")
_WHOLE = re.compile("[0-9a-f-]{36}")
"""An id that is looked up: one of another form is looked for among all."""
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")


@dataclass(frozen=True, slots=True)
class Ref:
    """A thread, a graph in it, and perhaps one checkpoint.

    | text | what is meant |
    | --- | --- |
    | `THREAD` | the latest checkpoint |
    | `THREAD@1f0c2` | the only checkpoint whose id begins or ends with this |
    | `THREAD@TAG` | the checkpoint with this tag |
    | `THREAD@~3` | three checkpoints before the latest, from parent to parent |
    | `THREAD@TAG~2` | two before that one |
    | `THREAD/NAMESPACE@…` | the same in an inner graph |

    An id of a thread that has `@`, `/` or `%` in it is written with `%40`, `%2F` and `%25`.

    Examples:
        >>> Ref.parse("trip@~1")
        Ref(thread_id='trip', namespace='', at=None, back=1)
    """

    thread_id: str
    """The thread."""
    namespace: str = ""
    """The graph: "" for the outermost."""
    at: str | None = None
    """An id, the beginning or end of one, or a tag; None means the latest."""
    back: int = 0
    """How many parents to go back from there."""

    @classmethod
    def parse(cls, text: str) -> Ref:
        """The reference that a text means.

        Args:
            text: As in the table.

        Raises:
            BadReferenceError: It means none.
        """
        place, at_sign, at = text.rpartition("@") if "@" in text else (text, "", "")
        thread, slash, namespace = place.partition("/")
        if not thread:
            raise BadReferenceError(
                f"'{text}' names no thread. Write THREAD, THREAD@CHECKPOINT, THREAD@TAG or "
                "THREAD@~3; in an inner graph THREAD/NAMESPACE@CHECKPOINT."
            )
        if (at_sign and not at) or (slash and not namespace):
            raise BadReferenceError(f"'{text}' ends too early: write THREAD, or THREAD@CHECKPOINT.")
        back = 0
        if found := _BACK.search(at):
            if len(found[1]) >= 10:
                raise BadReferenceError(f"'{text}' goes back further than any thread.")
            back = int(found[1] or 1)
            at = at[: found.start()]
        return cls(_plain(thread), _plain(namespace), _plain(at) or None, back)

    def __str__(self) -> str:
        text = _quoted(self.thread_id)
        if self.namespace:
            text += f"/{self.namespace.replace('%', '%25').replace('@', '%40')}"
        if self.at is not None or self.back:
            text += f"@{_quoted(self.at or '')}{f'~{self.back}' if self.back else ''}"
        return text


def _plain(text: str) -> str:
    for code, sign in (("%40", "@"), ("%2F", "/"), ("%2f", "/"), ("%25", "%")):
        text = text.replace(code, sign)
    return text


def _quoted(text: str) -> str:
    return text.replace("%", "%25").replace("@", "%40").replace("/", "%2F")


def resolve(db: Database, ref: Ref) -> CheckpointTuple:
    """The checkpoint that a reference means.

    Args:
        db: The database.
        ref: The reference.

    Raises:
        InspectError: Says why there is none: `ThreadNotFoundError`, `StateNotFoundError`,
            `AmbiguousReferenceError`.

    Examples:
        >>> from milepost.inspect.parts import resolve
        >>> resolve(db, Ref.parse("trip@~1")).metadata["step"]
        1
    """
    found = resolve_or_none(db, ref)
    if found is None:
        raise StateNotFoundError(f"Thread '{ref.thread_id}' has no checkpoint yet.")
    return found


def resolve_or_none(db: Database, ref: Ref) -> CheckpointTuple | None:
    """`resolve`; None for a thread without checkpoints."""
    if ref.at is None:
        saved = load(db, Place(ref.thread_id, ref.namespace, None))
    else:
        saved = _named(db, ref, ref.at)
    if saved is None:
        thread_row(db, ref.thread_id)
        if ref.namespace:
            raise _no_such_namespace(db, ref)
        return None
    if ref.back:
        before = next(islice(ancestors(db, saved), ref.back - 1, None), None)
        if before is None:
            raise StateNotFoundError(f"'{ref}' goes back further than the thread does.")
        return before
    return saved


def _named(db: Database, ref: Ref, at: str) -> CheckpointTuple | None:
    """The checkpoint that has this tag, or whose id is this or begins or ends like this."""
    thread_id, ns = ref.thread_id, ref.namespace
    with told_plainly(f"thread '{thread_id}'"):
        tag = tags_in(thread_row(db, thread_id).metadata).get(at)
        if tag is not None and tag.namespace == ns:
            return load(db, Place(thread_id, ns, tag.checkpoint_id))
        if _WHOLE.fullmatch(at) and (saved := load(db, Place(thread_id, ns, at))) is not None:
            return saved
        ids = db.source.ids(thread_id, ns, at)
    found = [at] if at in ids else ids[:3]
    if len(found) == 1:
        return load(db, Place(thread_id, ns, found[0]))
    if found:
        error = AmbiguousReferenceError(
            f"'{at}' means several checkpoints of thread '{thread_id}': {', '.join(found)}"
            f"{' …' if len(found) > 2 else ''}. Write more of the one that you mean; the ends of "
            "ids differ most."
        )
        error.candidates = tuple(found)
        raise error
    if ns and ns not in db.source.namespaces(thread_id):
        raise _no_such_namespace(db, ref)
    raise StateNotFoundError(
        f"Thread '{thread_id}' has no checkpoint or tag '{at}'"
        f"{f' in {ns}' if ns else ''}. `milepost log` lists its checkpoints, `milepost tags` its "
        "tags."
    )


def thread_row(db: Database, thread_id: str) -> ThreadRow:
    """A thread of the registry, without counts.

    Raises:
        ThreadNotFoundError: There is no such thread.
    """
    with told_plainly(f"thread '{thread_id}'"):
        row = db.source.thread_entry(thread_id)
        if row is None:
            raise no_such_thread(db, thread_id)
        return row


def no_such_thread(db: Database, thread_id: str) -> ThreadNotFoundError:
    """The error, with threads in whose ids or metadata the id occurs."""
    from milepost.checkpoint._contract.threads import ThreadFilter
    from milepost.checkpoint._sql.threads.registry import Search

    close = db.source.threads(ThreadFilter(limit=4), Search(thread_id)).items
    hint = f" There is {', '.join(row.thread_id for row in close)}." if close else ""
    return ThreadNotFoundError(
        f"There is no thread '{thread_id}' in {db.url}.{hint} `milepost threads` lists them."
    )


def _no_such_namespace(db: Database, ref: Ref) -> StateNotFoundError:
    there = [ns for ns in db.source.namespaces(ref.thread_id) if ns][:8]
    known = f"it has {', '.join(there)}" if there else "it has none"
    return StateNotFoundError(
        f"Thread '{ref.thread_id}' has no inner graph '{ref.namespace}': {known}."
    )


# -- tags
#
# Tags are names for checkpoints. They are stored in the metadata of their thread, each under a
# reserved key of its own. So they are as durable as the thread, are copied, dumped, erased and
# encrypted with it, and need no table of their own. Metadata is added key by key (`create_thread`):
# tags that are set at the same time do not disturb each other, and of two with one name the later
# one is the tag. A tag that was removed leaves its key, with nothing in it. What replaces all
# metadata of a thread (`set_thread_metadata`) removes its tags as well.

PREFIX: Final = "milepost:tag:"
"""How the reserved keys begin."""
_OLDER: Final = "milepost:tags"
"""The key under which version 0.2.0 kept all tags of a thread."""
TagsById = Mapping[tuple[str, str], Sequence[str]]
"""Namespace and checkpoint → the tags there."""


class TaggedAt(NamedTuple):
    """The checkpoint that a tag names."""

    checkpoint_id: str
    namespace: str


def tags_in(metadata: Mapping[str, Any]) -> dict[str, TaggedAt]:
    """The tags in the metadata of a thread; what is no tag is left out."""
    older = metadata.get(_OLDER)
    stored = dict(older) if isinstance(older, dict) else {}
    for key, place in metadata.items():
        if key.startswith(PREFIX):
            stored[key.removeprefix(PREFIX)] = place
    return {name: TaggedAt(*place) for name, place in stored.items() if _is_place(place)}


def _is_place(place: Any) -> bool:
    return (
        isinstance(place, list) and len(place) == 2 and all(isinstance(part, str) for part in place)
    )


def tags_by_id(metadata: Mapping[str, Any]) -> TagsById:
    """The names of tags by their checkpoints."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, tag in sorted(tags_in(metadata).items()):
        found.setdefault((tag.namespace, tag.checkpoint_id), []).append(name)
    return found


def without_tags(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata as the user has it.

    Args:
        metadata: What the registry has of a thread.

    Examples:
        >>> from milepost.inspect.parts import without_tags
        >>> without_tags({"owner": "ada"})
        {'owner': 'ada'}
    """
    return {
        key: value
        for key, value in metadata.items()
        if not key.startswith(PREFIX) and key != _OLDER
    }


class TagRow(NamedTuple):
    """A tag of a thread.

    Examples:
        >>> row = inspect.tag(db, Ref.parse("trip"), "booked")
        >>> row.name, row.exists
        ('booked', True)
    """

    name: str
    """The tag."""
    thread_id: str
    """The thread."""
    namespace: str
    """The graph: "" for the outermost."""
    checkpoint_id: str
    """The checkpoint."""
    exists: bool
    """Whether the checkpoint is still there."""


def tags(db: Database, thread_id: str) -> list[TagRow]:
    """The tags of a thread by name.

    Args:
        db: The database.
        thread_id: The thread.

    Examples:
        >>> _ = inspect.tag(db, Ref.parse("trip"), "booked")
        >>> [row.name for row in inspect.tags(db, "trip")]
        ['booked']
    """
    return [
        TagRow(
            name,
            thread_id,
            tag.namespace,
            tag.checkpoint_id,
            load(db, Place(thread_id, tag.namespace, tag.checkpoint_id)) is not None,
        )
        for name, tag in sorted(_known_tags(db, thread_id).items())
    ]


def tag(db: Database, ref: Ref, name: str) -> TagRow:
    """Name a checkpoint; a tag of the same name moves there, and of two at once the later one is
    kept.

    Args:
        db: The database.
        ref: The checkpoint.
        name: The tag.

    Examples:
        >>> _ = inspect.tag(db, Ref.parse("trip@~1"), "before")
        >>> inspect.show(db, Ref.parse("trip@before")).next
        ('count',)
    """
    db.check_writable("tag")
    if not _TAG.fullmatch(name):
        raise BadReferenceError(
            f"'{name}' cannot be a tag: use letters, digits and . _ + -, at most 100, and begin "
            "with a letter, a digit or _."
        )
    place = place_of(resolve(db, ref).config)
    at = TaggedAt(place.checkpoint_id or "", place.checkpoint_ns)
    _store_tag(db, ref.thread_id, name, at)
    return TagRow(name, ref.thread_id, at.namespace, at.checkpoint_id, True)


def untag(db: Database, thread_id: str, name: str) -> None:
    """Remove a tag; the checkpoint stays.

    Args:
        db: The database.
        thread_id: The thread.
        name: The tag.

    Examples:
        >>> _ = inspect.tag(db, Ref.parse("trip"), "booked")
        >>> inspect.untag(db, "trip", "booked")
        >>> inspect.tags(db, "trip")
        []
    """
    db.check_writable("untag")
    known = _known_tags(db, thread_id)
    if name not in known:
        there = f": it has {', '.join(sorted(known))}" if known else ""
        raise StateNotFoundError(f"Thread '{thread_id}' has no tag '{name}'{there}.")
    _store_tag(db, thread_id, name, None)


def _known_tags(db: Database, thread_id: str) -> dict[str, TaggedAt]:
    return tags_in(thread_row(db, thread_id).metadata)


def _store_tag(db: Database, thread_id: str, name: str, at: TaggedAt | None) -> None:
    """Set a tag, or remove it."""
    stored = {f"{PREFIX}{name}": None if at is None else list(at)}
    with told_plainly(f"thread '{thread_id}'"):
        db.saver.create_thread(thread_id, stored)  # type: ignore[attr-defined]
