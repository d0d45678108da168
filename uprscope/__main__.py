"""``python -m uprscope``: the command line, where the ``uprscope`` script is not on the path."""

import sys

from uprscope.cli import main

if __name__ == "__main__":
    sys.exit(main())
