"""`python -m milepost.cli`, for when the `milepost` script is not on the path."""

import sys

from milepost.cli import main

sys.exit(main())
