"""What makes vectors of texts, and which texts of a value they are made of."""

from milepost.store._vectors.embeddings import AEmbeddingsFunc, EmbeddingsFunc, ensure_embeddings
from milepost.store._vectors.paths import get_text_at_path, tokenize_path

__all__ = [
    "AEmbeddingsFunc",
    "EmbeddingsFunc",
    "ensure_embeddings",
    "get_text_at_path",
    "tokenize_path",
]
