"""Says what to install where LangChain is missing. Imported first by `_agent` and `_tools`."""

from __future__ import annotations

try:
    import langchain_core  # noqa: F401
except ImportError as error:
    raise ImportError(
        "milepost.prebuilt needs LangChain for models and tools: run "
        "`pip install 'milepost[langchain]'`."
    ) from error
