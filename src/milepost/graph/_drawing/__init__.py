"""Pictures of a graph: Mermaid text, ASCII for the terminal, JSON, and PNG.

picture.py   the nodes and edges of a picture
survey.py    finds them in a compiled graph
mermaid.py   the picture as Mermaid text
png.py       such text as PNG, by a local renderer or by LangChain
layout.py    places nodes in layers
ascii.py     draws such a layout with characters
"""

from milepost.graph._drawing.picture import Edge, Graph, Node

__all__ = ["Edge", "Graph", "Node"]
