"""Namespaces: which ones are allowed, how they are written as one text, which ones match.

As text, a namespace is its labels, each followed by a period: `("acme", "memories")` is
`acme.memories.`. Labels have no periods, so the text is unambiguous, and "begins with these
labels" is "begins with this text": the sibling `acme-corp.` does not begin with `acme.`. A database
finds all of them in one range of an index, and nothing in a label can act as a wildcard.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from milepost._internal.texts import is_utf8
from milepost._internal.warn import mistake
from milepost.errors import InvalidKeyError, InvalidNamespaceError
from milepost.store._core.records import (
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    Namespace,
    Op,
    PutOp,
)

WILDCARD: Final = "*"
LAST: Final = "\U0010ffff" * 8
"""Sorts after the text of any namespace in use."""
_RESERVED: Final = ("langgraph", "milepost")


def empty() -> InvalidNamespaceError:
    """The error for a write that names none."""
    return InvalidNamespaceError(
        "Namespace cannot be empty: give at least one label, such as ('memories',)."
    )


def check_put(namespace: Any) -> Namespace:
    """The namespace, if items can be put there."""
    checked = check(namespace)
    if not checked:
        raise empty()
    if checked[0] in _RESERVED:
        raise InvalidNamespaceError(
            f'Root label for namespace cannot be "{checked[0]}": it is reserved. Got: {checked}'
        )
    return checked


def check(namespace: Any) -> Namespace:
    """The namespace as a tuple, if items could be there; it may be empty."""
    try:
        return _known(namespace)
    except TypeError:  # a list, for one, which is not remembered
        return _check(namespace)


def _check(namespace: Any) -> Namespace:
    if isinstance(namespace, str):
        namespace = _labels_of(namespace)
    elif not isinstance(namespace, (tuple, list)):
        raise InvalidNamespaceError(
            f"A namespace is a tuple of strings, not {namespace!r}. Write (label,) for one label."
        )
    for label in namespace:
        if type(label) is not str and not isinstance(label, str):
            raise InvalidNamespaceError(
                f"Invalid namespace label '{label}' found in {tuple(namespace)}. Namespace labels "
                f"must be strings, but got {type(label).__name__}."
            )
        if not label:
            raise InvalidNamespaceError(
                f"Namespace labels cannot be empty strings. Got {tuple(namespace)}."
            )
        if "." in label:
            raise InvalidNamespaceError(
                f"Invalid namespace label '{label}' found in {tuple(namespace)}. Namespace labels "
                "cannot contain periods ('.'); make it two labels, or use another character."
            )
        if not is_plain(label):
            raise InvalidNamespaceError(
                f"Invalid namespace label {label!r}: a label cannot contain NUL or half of a "
                "surrogate pair, since databases cannot hold them."
            )
    return tuple(namespace)


def _labels_of(text: str) -> Namespace:
    """The labels of a text that was given as a namespace, most likely `("users")` for `("users",)`.

    As in LangGraph each character is one, so that items which it has stored are found.
    """
    wrong = f"A namespace is a tuple of strings, not {text!r}. Write (label,) for one label."
    mistake(InvalidNamespaceError(wrong), "Each character of it is taken as a label.")
    return tuple(text)


# Programs use the same few namespaces again and again.
_known: Final = lru_cache(1024)(_check)


def check_key(key: Any) -> str:
    """The key, if an item can have it. What is no text is written as text, such as a number."""
    if type(key) is str and key.isascii() and "\0" not in key:
        return key
    if not isinstance(key, str):
        if key is None or isinstance(key, (bytes, bytearray, tuple, list, dict)):
            wrong = InvalidKeyError(f"A key is a string, not {type(key).__name__}: {key!r}.")
            if isinstance(key, (bytearray, list, dict)):
                raise wrong
            mistake(wrong, f"It is taken for the text {str(key)!r}.")
        key = str(key)
    if not is_plain(key):
        raise InvalidKeyError(
            f"Invalid key {key!r}: a key cannot contain NUL or half of a surrogate pair, since "
            "databases cannot hold them."
        )
    return str(key)


def is_plain(text: str) -> bool:
    """Whether every database can hold this text."""
    return "\0" not in text and (text.isascii() or is_utf8(text))


def validate_op_namespace(op: Op) -> None:
    """Check the namespace of an operation.

    What only `put` refuses, such as a root that is reserved, is allowed: a batch may write there.

    Args:
        op: The operation.

    Raises:
        InvalidNamespaceError: Such a namespace cannot exist.

    Examples:
        >>> from milepost.store.base import PutOp, validate_op_namespace
        >>> validate_op_namespace(PutOp(("users", "ada"), "city", {"name": "Paris"}))
    """
    if isinstance(op, (GetOp, PutOp)):
        check(op.namespace)
    elif isinstance(op, ListNamespacesOp):
        for condition in op.match_conditions or ():
            check(condition.path)
    else:
        check(op.namespace_prefix)


@lru_cache(1024)
def to_text(namespace: Namespace) -> str:
    return "".join([label + "." for label in namespace])


@lru_cache(1024)
def from_text(text: str) -> Namespace:
    """The namespace that `to_text` was given."""
    return tuple(text[:-1].split(".")) if text else ()


def text_range(prefix: Namespace) -> tuple[str, str] | None:
    """The first text below `prefix`, and the first that is not below it; None if all are."""
    text = to_text(prefix)
    return (text, text[:-1] + "/") if text else None  # '/' is the next character after '.'


def matches(namespace: Namespace, condition: MatchCondition) -> bool:
    """Whether the namespace begins or ends as the condition says."""
    path = tuple(condition.path)
    if len(path) > len(namespace):
        return False
    if not path:
        return True
    if condition.match_type not in ("prefix", "suffix"):
        raise ValueError(f"Unsupported match type: {condition.match_type!r}. Use prefix or suffix.")
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return all(want in (WILDCARD, label) for want, label in zip(path, part, strict=True))


def fixed_prefix(op: ListNamespacesOp) -> Namespace:
    """Labels that every namespace which `op` can list begins with."""
    for condition in op.match_conditions or ():
        if condition.match_type == "prefix":
            path = tuple(condition.path)
            return path[: path.index(WILDCARD)] if WILDCARD in path else path
    return ()


def listed(namespaces: Iterable[Namespace], op: ListNamespacesOp) -> list[Namespace]:
    """The page that `op` asks for."""
    found: Iterable[Namespace] = namespaces
    for condition in op.match_conditions or ():
        path = tuple(condition.path)
        if condition.match_type == "prefix" and WILDCARD not in path:
            depth = len(path)
            found = [namespace for namespace in found if namespace[:depth] == path]
        else:
            found = [namespace for namespace in found if matches(namespace, condition)]
    if op.max_depth is not None:
        depth = op.max_depth
        found = {namespace[:depth] for namespace in found}
    return sorted(set(found))[op.offset : op.offset + op.limit]
