"""`python -m onegroup`, for use without an installed command."""

import sys

from onegroup.cli import main

sys.exit(main())
