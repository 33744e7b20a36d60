"""The tests use the package in the tree, or, with SMARTROUTER_INSTALLED=1, the installed one."""

import os
import pathlib
import sys

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
if not os.environ.get("SMARTROUTER_INSTALLED"):
    sys.path.insert(0, str(PACKAGE / "src"))
