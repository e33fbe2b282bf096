"""`python -m merkat`, for use without an installed command."""

import sys

from merkat.cli import main

sys.exit(main())
