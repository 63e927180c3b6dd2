"""`python -m fairlead` is the `fairlead` command."""

import sys

from .cli import main

sys.exit(main())
