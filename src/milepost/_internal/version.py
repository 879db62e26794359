"""The version of milepost, as the installed package has it.

`importlib.metadata` takes as long to load as the rest of milepost: import this module where the
version is asked for.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("milepost")
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0+unknown"
