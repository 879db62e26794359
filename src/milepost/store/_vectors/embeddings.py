"""From texts to vectors, whatever the user has for it.

`embed` may be a function of a list of texts (sync or async), an object with `embed_documents` and
`embed_query` (LangChain's interface, with or without the async twins), or a name such as
`"openai:text-embedding-3-small"`, for which LangChain is asked.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import struct
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, Protocol, TypeAlias, runtime_checkable

from milepost._internal.asyncio_tools import in_thread
from milepost._internal.supported import required
from milepost._internal.warn import mistake
from milepost.errors import ColourError, EmbeddingError

Vector: TypeAlias = Sequence[float]
Packed: TypeAlias = bytes
"""A vector that was checked: float32, the lowest byte first."""
EmbeddingsFunc: TypeAlias = Callable[[Sequence[str]], Sequence[Vector]]
AEmbeddingsFunc: TypeAlias = Callable[[Sequence[str]], Awaitable[Sequence[Vector]]]


@runtime_checkable
class Embeddings(Protocol):
    """What an embeddings object offers; `aembed_documents`, `aembed_query` are used if there.

    Examples:
        >>> from milepost.store.base import Embeddings
        >>> class Lengths:
        ...     def embed_documents(self, texts):
        ...         return [self.embed_query(text) for text in texts]
        ...     def embed_query(self, text):
        ...         return [float(len(text))]
        >>> isinstance(Lengths(), Embeddings)
        True
    """

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """A vector for each text.

        Args:
            texts: The texts.
        """
        ...

    def embed_query(self, text: str) -> list[float]:
        """The vector of a query.

        Args:
            text: The query.
        """
        ...


Embed: TypeAlias = Embeddings | EmbeddingsFunc | AEmbeddingsFunc | str


class Embedder:
    """Makes vectors, sync and async, and checks them.

    Unless `is_fixed`, the first vector shows how long vectors are, whatever `dims` says.
    """

    def __init__(
        self, embed: Embed, dims: Any, model: str | None = None, *, is_fixed: bool = True
    ) -> None:
        is_length = isinstance(dims, int) and not isinstance(dims, bool) and dims >= 1
        if is_fixed and not is_length:
            raise ValueError(f"index['dims'] is the length of a vector, not {dims!r}.")
        self._is_fixed = is_fixed
        self.dims = dims if is_length else 0
        self._pack = struct.Struct(f"<{self.dims}f").pack
        name = model or (embed if isinstance(embed, str) else _own_name(embed))
        self.model = name or _type_name(embed)
        self.is_named = name is not None
        """Whether the name is a model's, and not just that of a function or a class."""
        found = load(embed) if isinstance(embed, str) else embed
        self._object: Any = found if hasattr(found, "embed_documents") else None
        self._function: Any = found if self._object is None else None
        if self._function is not None and not callable(self._function):
            raise TypeError(
                "index['embed'] must be a function, an object with embed_documents and "
                f"embed_query, or a name like 'openai:text-embedding-3-small'; got {embed!r}."
            )
        self._is_async = self._function is not None and _is_async(self._function)

    def embed(self, texts: Sequence[str], *, are_queries: bool) -> list[Packed]:
        """One vector for each text. Some models treat queries in another way."""
        return self._checked(self._embedded(texts, are_queries), len(texts), are_queries)

    async def aembed(self, texts: Sequence[str], *, are_queries: bool) -> list[Packed]:
        """`embed`, for use on an event loop: a sync model runs in a thread."""
        return self._checked(await self._aembedded(texts, are_queries), len(texts), are_queries)

    def _embedded(self, texts: Sequence[str], are_queries: bool) -> Any:
        """What the model makes of texts."""
        if self._object is None:
            return self._called(texts)
        if are_queries:
            return [self._object.embed_query(text) for text in texts]
        return self._object.embed_documents(list(texts))

    async def _aembedded(self, texts: Sequence[str], are_queries: bool) -> Any:
        if self._is_async:
            return await self._function(list(texts))
        name = "aembed_query" if are_queries else "aembed_documents"
        embed = getattr(self._object, name, None)
        if embed is None:
            return await in_thread(self._embedded, texts, are_queries)
        return await (asyncio.gather(*map(embed, texts)) if are_queries else embed(list(texts)))

    def _called(self, texts: Sequence[str]) -> Any:
        # The model gets a list of its own each time: it may do with it what it likes.
        if not self._is_async:
            vectors = self._function(list(texts))
            if type(vectors) is list or not inspect.isawaitable(vectors):
                return vectors
            # A callable that only turns out to be async when it is called.
            self._is_async = True
            getattr(vectors, "close", lambda: None)()
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(_awaited(self._function, list(texts)))
        raise ColourError(
            "The store's `embed` is async, and an event loop is running in this thread, so a sync "
            "method cannot wait for it. Call the async twin: await store.aput(...), "
            "await store.asearch(...)."
        )

    def _checked(self, vectors: Any, expected: int, are_queries: bool) -> list[Packed]:
        if isinstance(vectors, (str, bytes, Mapping)) or not isinstance(vectors, Iterable):
            raise EmbeddingError(
                f"`embed` was given {expected} texts and returned {_described(vectors)}. It must "
                "return a list with one vector for each text, in the same order."
            )
        found = list(vectors)
        if len(found) != expected:
            raise EmbeddingError(
                f"`embed` was given {expected} texts and returned {len(found)} vectors. It must "
                "return one for each text, in the same order."
            )
        packed = [self._packed(vector) for vector in found]
        if not are_queries:
            self._fix_length(packed)
        return packed

    def _packed(self, vector: Any) -> Packed:
        if isinstance(vector, (str, bytes, Mapping)) or not hasattr(vector, "__len__"):
            raise EmbeddingError(
                f"`embed` returned {_described(vector)} in place of a vector. A vector is a list "
                f"of {self.dims} numbers."
            )
        pack = self._pack
        if len(vector) != self.dims:
            pack = self._other_length(len(vector))
        if type(vector) is not list and hasattr(vector, "tolist"):
            vector = vector.tolist()  # numpy's own numbers are slow one by one
        try:
            packed = pack(*vector)
        except (OverflowError, struct.error, TypeError) as error:
            raise EmbeddingError(
                f"`embed` returned a vector that is not of 32-bit floats: {error}."
            ) from error
        # The highest byte of NaN and of infinity is one of these; that of a number hardly ever.
        highest = packed[3::4]
        if (b"\x7f" in highest or b"\xff" in highest) and not all(map(isfinite, vector)):
            raise EmbeddingError("`embed` returned a vector with NaN or infinity in it.")
        return packed

    def _other_length(self, length: int) -> Callable[..., bytes]:
        """What packs a vector of another length than `dims`, as long as none is kept."""
        if self._is_fixed or not length:
            raise self._length_error(length)
        return struct.Struct(f"<{length}f").pack

    def _length_error(self, length: int) -> EmbeddingError:
        return EmbeddingError(
            f"`embed` returned a vector of length {length}, but index['dims'] is {self.dims}. "
            "Set dims to what the model makes."
        )

    def _fix_length(self, packed: Sequence[Packed]) -> None:
        """From the first vector on that is kept, all have its length."""
        if self._is_fixed or not packed:
            return
        length = len(packed[0]) // 4
        if self.dims and length != self.dims:
            mistake(self._length_error(length), "Here the model's length counts.")
        self._pack, self.dims = struct.Struct(f"<{length}f").pack, length
        self._is_fixed = True
        if any(len(one) != 4 * length for one in packed):
            raise self._length_error(next(len(o) // 4 for o in packed if len(o) != 4 * length))


def _described(thing: Any) -> str:
    return "None" if thing is None else f"a {type(thing).__name__}"


async def _awaited(function: AEmbeddingsFunc, texts: list[str]) -> Any:
    return await function(texts)


def _is_async(function: Any) -> bool:
    function = _unwrapped(function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004
    )


def _own_name(embed: Any) -> str | None:
    """The name of the model, if the object says it."""
    embed = _unwrapped(embed)
    if hasattr(embed, "__qualname__"):
        return None
    for attribute in ("model", "model_name", "model_id"):
        name = getattr(embed, attribute, None)
        if isinstance(name, str):
            return f"{type(embed).__qualname__}:{name}"
    return None


def _type_name(embed: Any) -> str:
    """The name of a model that is given without one."""
    embed = _unwrapped(embed)
    return str(getattr(embed, "__qualname__", type(embed).__qualname__))


def _unwrapped(embed: Any) -> Any:
    while isinstance(embed, functools.partial):
        embed = embed.func
    return embed


def load(name: str) -> Embeddings:
    """The embeddings that LangChain knows under this name."""
    with required(
        f"To look up the embeddings {name!r} by name, LangChain is needed: "
        "pip install langchain (and the provider's package, such as langchain-openai). "
        "Or pass a function or an embeddings object as `embed`."
    ):
        from langchain.embeddings import (  # type: ignore[import-not-found,unused-ignore]
            init_embeddings,
        )
    found: Embeddings = init_embeddings(name)
    return found


class _Wrapped:
    """A function with the interface of an embeddings object."""

    def __init__(self, embed: EmbeddingsFunc | AEmbeddingsFunc) -> None:
        self._embed = embed
        self._is_async = _is_async(embed)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if self._is_async:
            raise ColourError("The function is async: await aembed_documents(...) instead.")
        return [list(vector) for vector in self._embed(texts)]  # type: ignore[union-attr]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        if not self._is_async:
            return await in_thread(self.embed_documents, texts)
        return [list(vector) for vector in await self._embed(texts)]  # type: ignore[misc]

    async def aembed_query(self, text: str) -> list[float]:
        return (await self.aembed_documents([text]))[0]


def ensure_embeddings(embed: Embed | None) -> Embeddings:
    """An embeddings object, however it is given.

    Args:
        embed: A function from texts to vectors, sync or async, an embeddings object, or
            `"provider:model"`.

    Examples:
        >>> from milepost.store.base import ensure_embeddings
        >>> embeddings = ensure_embeddings(lambda texts: [[float(len(text))] for text in texts])
        >>> embeddings.embed_query("four")
        [4.0]
    """
    if embed is None:
        raise ValueError("embed must be provided")
    if isinstance(embed, str):
        return load(embed)
    if isinstance(embed, Embeddings):
        return embed
    return _Wrapped(embed)
