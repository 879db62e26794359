"""Brings the pages at the root of the repository into the site, and links that lead out of it.

MkDocs knows the files of one folder only. ARCHITECTURE, CHANGELOG and CONTRIBUTING stay where
readers of the repository look for them; links to other files of the repository are left as text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")
_LINK = re.compile(r"(!?\[[^\]]*\])\(([^)#\s:]+)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in the folder of the documents."""
    for name in PAGES:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Let links lead to the page's place in the site. MkDocs passes arguments by these names."""
    source = page.file.src_uri
    # Where the file is in the repository, from where its links start.
    folder = "" if source in PAGES else posixpath.join("docs", posixpath.dirname(source))

    def replaced(match: re.Match[str]) -> str:
        text, target, anchor = match.groups()
        path = posixpath.normpath(posixpath.join(folder, target))
        inside = path.removeprefix("docs/")
        if path in PAGES or (path.startswith("docs/") and files.get_file_from_path(inside)):
            to = posixpath.relpath(inside, posixpath.dirname(source) or ".")
            return f"{text}({to}{anchor or ''})"
        if path == "README.md":
            return f"{text}({posixpath.relpath('index.md', posixpath.dirname(source) or '.')})"
        return text.strip("!") if (ROOT / path).exists() else match[0]

    return _LINK.sub(replaced, markdown)
