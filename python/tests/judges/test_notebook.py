"""docs/own_network.ipynb runs, and its outputs are the stored ones."""

import pathlib
import subprocess
import sys

import pytest

for package in ("torch", "nbclient", "ipykernel", "matplotlib", "PIL"):
    pytest.importorskip(package)

pytestmark = pytest.mark.thorough
ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_own_network():
    done = subprocess.run([sys.executable, ROOT / "scripts/check_notebook.py", ROOT / "docs/own_network.ipynb"],
                          capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
