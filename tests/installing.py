"""How packages are installed beside the Python that runs the tests."""

import sys
from importlib.util import find_spec

INSTALL = f"{sys.executable} -m pip install" if find_spec("pip") else f"uv pip install --python {sys.prefix}"
"""The command, which Fairlead names where something is missing. An environment that uv made has no pip."""
