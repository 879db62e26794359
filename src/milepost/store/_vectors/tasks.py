"""Which vectors the tasks of several callers need: all of them are made in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from milepost.store._core.tasks import Embed, Group, Search, Task, Write
from milepost.store._vectors.embeddings import Packed


def needs_vectors(group: Group) -> bool:
    """Whether something in the group has to be embedded."""
    for task in group:
        kind = type(task)
        if (kind is Write and task.texts) or (kind is Search and task.query is not None):  # type: ignore[union-attr]
            return True
    return False


def wanted_vectors(groups: Sequence[Group]) -> Embed:
    """What has to be embedded for these groups, each text once."""
    documents: dict[str, None] = {}
    queries: dict[str, None] = {}
    for group in groups:
        for task in group:
            if isinstance(task, Write):
                for text in task.texts:
                    documents[text] = None
            elif isinstance(task, Search) and task.query is not None:
                queries[task.query] = None
    return Embed(list(documents), list(queries))


def with_vectors(
    groups: Sequence[Group], request: Embed, made: tuple[Sequence[Packed], Sequence[Packed]]
) -> list[Group]:
    """The groups, with the vectors that were made for them."""
    documents = dict(zip(request.documents, made[0], strict=True))
    queries = dict(zip(request.queries, made[1], strict=True))
    return [[_with_vector(task, documents, queries) for task in group] for group in groups]


def _with_vector(
    task: Task, documents: Mapping[str, Packed], queries: Mapping[str, Packed]
) -> Task:
    if isinstance(task, Write) and task.texts:
        return Write(*task[:-1], [documents[text] for text in task.texts])
    if isinstance(task, Search) and task.query is not None:
        return task._replace(vector=queries[task.query])
    return task
