"""Says what to install where LangChain is missing. Imported before anything of LangChain."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("langchain_core") is None:
    raise ImportError(
        "milepost.prebuilt needs LangChain for models and tools: run `pip install langchain-core`."
    )
