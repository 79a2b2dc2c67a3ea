"""`python -m reprl` is the `reprl` command."""

import sys

from reprl.cli import main

sys.exit(main())
