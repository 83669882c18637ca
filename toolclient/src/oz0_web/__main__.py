"""`python -m oz0_web`: the same as the `oz0-web` command."""

import sys

from oz0_web.cli import main

if __name__ == "__main__":
    sys.exit(main())
