"""Models for tests: a text is a vector of how often it has the letters a, b and c."""

from __future__ import annotations


class Model:
    """Counts its calls."""

    def __init__(self, dims=3):
        self.dims = dims
        self.calls = []

    def vector(self, text):
        counts = [float(text.count(letter)) for letter in "abcdefgh"[: self.dims - 1]]
        return [*counts, 0.01]

    def __call__(self, texts):
        self.calls.append(list(texts))
        return [self.vector(text) for text in texts]


class AsyncModel(Model):
    async def __call__(self, texts):
        return Model.__call__(self, texts)


class ObjectModel(Model):
    """The interface of LangChain's embeddings."""

    __call__ = None
    model = "letters-1"

    def embed_documents(self, texts):
        self.calls.append(list(texts))
        return [self.vector(text) for text in texts]

    def embed_query(self, text):
        self.calls.append(text)
        return self.vector(text)


class AsyncObjectModel(ObjectModel):
    async def aembed_documents(self, texts):
        return self.embed_documents(texts)

    async def aembed_query(self, text):
        return self.embed_query(text)
