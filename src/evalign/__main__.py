"""`python -m evalign` is the command `evalign`."""

import sys

from evalign.cli import main

sys.exit(main())
