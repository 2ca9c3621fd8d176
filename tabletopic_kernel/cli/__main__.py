"""``python -m tabletopic_kernel.cli``: the program, also where its script is not on the path."""

import sys

from tabletopic_kernel.cli import main

sys.exit(main())
