"""Says what to install where LangChain is missing. Imported first by `_agent` and `_tools`."""

from __future__ import annotations

from milepost._internal.supported import required

with required(
    "milepost.prebuilt needs LangChain for models and tools: run "
    "`pip install 'milepost[langchain]'`."
):
    import langchain_core  # noqa: F401
