"""The tests of installing: packages, images, manifests. They take minutes, so `make test-install` runs them apart.

They use the harness of the functional tests: its fixtures and its helpers are here under the same names.
"""

import importlib.util
import pathlib
import sys

FUNCTIONAL = pathlib.Path(__file__).resolve().parents[1] / "functional"
sys.path.insert(1, str(FUNCTIONAL))
spec = importlib.util.spec_from_file_location("harness", FUNCTIONAL / "conftest.py")
harness = importlib.util.module_from_spec(spec)
spec.loader.exec_module(harness)
globals().update({name: value for name, value in vars(harness).items() if not name.startswith("__")})
