"""`python -m milepost`: the command line."""

import sys

from milepost.cli import main

sys.exit(main())
