"""``python -m tabletopic_kernel.faces.cli``: the program, even if its script is not on the path."""

import sys

from tabletopic_kernel.faces.cli import main

sys.exit(main())
