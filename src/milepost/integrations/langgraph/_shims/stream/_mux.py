"""Needed by langchain's create_agent: what a graph's transformers are put together with."""

from milepost.stream._mux import StreamMux, TransformerFactory

__all__ = ["StreamMux", "TransformerFactory"]
