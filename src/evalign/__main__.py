"""`python -m evalign` is the command `evalign`."""

import sys

from evalign.cli import main

if __name__ == "__main__":  # worker processes import this file, too
    sys.exit(main())
