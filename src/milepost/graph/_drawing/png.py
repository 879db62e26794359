"""Pictures of graphs as PNG."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from milepost.errors import MissingDependencyError

if TYPE_CHECKING:
    from os import PathLike


def png(
    text: str,
    path: str | PathLike[str] | None,
    background: str,
    by_langchain: Mapping[str, Any],
) -> bytes:
    """The picture that a text in Mermaid's language describes; also written to `path`."""
    renderer = shutil.which("mmdc")
    if renderer is not None and not by_langchain:
        return _drawn_here(renderer, text, path, background)
    if find_spec("langchain_core") is None:
        raise MissingDependencyError(
            "A PNG is drawn by Mermaid's renderer `mmdc`, which is not installed: run "
            "`npm install -g @mermaid-js/mermaid-cli`, or paste draw_mermaid() into a viewer."
        )
    from langchain_core.runnables.graph_mermaid import draw_mermaid_png

    where = None if path is None else str(path)
    options: dict[str, Any] = {"background_color": background, **by_langchain}
    return draw_mermaid_png(text, output_file_path=where, **options)


def _drawn_here(
    renderer: str, text: str, path: str | PathLike[str] | None, background: str
) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "graph.mmd"), Path(folder, "graph.png")
        source.write_text(text, encoding="utf-8")
        done = subprocess.run(
            [renderer, "-i", str(source), "-o", str(target), "-b", background],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0 or not target.exists():
            raise RuntimeError(f"`mmdc` could not draw the graph: {done.stderr or done.stdout}")
        image = target.read_bytes()
    if path is not None:
        Path(path).write_bytes(image)
    return image
