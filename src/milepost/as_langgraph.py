"""`import milepost.as_langgraph`, as the first line of a program: `langgraph` means milepost.

Every `import langgraph…` after it, in the program and in the packages that it uses, is answered by
milepost. It has to come before the first of them.
"""

from milepost.integrations.langgraph import _alias

_alias.install()

__all__: list[str] = []
