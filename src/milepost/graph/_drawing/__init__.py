"""Pictures of a graph: Mermaid text, ASCII for the terminal, JSON, and PNG.

picture.py   the nodes and edges of a picture
survey.py    finds them in a compiled graph
mermaid.py   the picture as Mermaid text; as PNG, by a local renderer or by LangChain
ascii.py     places nodes in layers, and draws them with characters
"""
