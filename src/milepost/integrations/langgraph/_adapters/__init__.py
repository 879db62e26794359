"""One library's savers and stores for the other's graphs. Importing this needs LangGraph."""

from milepost._internal.supported import needed
from milepost.integrations.langgraph._alias import is_installed

if is_installed():
    raise ImportError(
        "In this process `langgraph` means milepost, so there is nothing to adapt: pass milepost's "
        "savers and stores to its graphs as they are."
    )
needed("langgraph.types")
