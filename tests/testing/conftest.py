"""The kit's tests share the broken savers of `mutants.py`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
