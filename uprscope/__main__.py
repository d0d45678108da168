"""``python -m uprscope``: the command line, for where the ``uprscope`` script is not on the PATH."""

import sys

from uprscope.cli import main

if __name__ == "__main__":
    sys.exit(main())
