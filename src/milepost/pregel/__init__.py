"""Graphs that are made from channels and nodes, without a state schema.

    app = Pregel(
        nodes={"double": NodeBuilder().subscribe_only("a").do(lambda x: x * 2).write_to("b")},
        channels={"a": EphemeralValue(int), "b": LastValue(int)},
        input_channels="a",
        output_channels="b",
    )
    app.invoke(2)  # 4

A compiled StateGraph and an entrypoint are a `Pregel` too: all of them run, save, stream and are
read in the same way.
"""

from milepost.pregel.main import ChannelWriteEntry, NodeBuilder, Pregel

__all__ = ["ChannelWriteEntry", "NodeBuilder", "Pregel"]
