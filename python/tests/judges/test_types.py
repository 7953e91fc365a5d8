"""Type checkers in their strict modes accept the calls of docs/python.md and docs/pytorch.md."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import accrue
import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.thorough

PACKAGE = pathlib.Path(accrue.__file__).parent
FILES = sorted(pathlib.Path(__file__).parents[1].joinpath("typed").glob("*.py"))
PYRIGHT = '{{"include": ["typed"], "typeCheckingMode": "strict", "extraPaths": ["{}"]}}'


def ran(command, folder):
    done = subprocess.run(command, cwd=folder, env={**os.environ, "MYPYPATH": str(PACKAGE.parent)}, capture_output=True,
                          text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("checker", ("mypy", "pyright"))
def test_accept_the_examples(checker, tmp_path):
    if importlib.util.find_spec(checker) is None:
        pytest.skip(f"no {checker}")
    if not (PACKAGE / "_accrue.pyi").exists():
        pytest.skip("no stub beside the module")
    (tmp_path / "typed").mkdir()
    for path in FILES:
        (tmp_path / "typed" / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "pyrightconfig.json").write_text(PYRIGHT.format(PACKAGE.parent), encoding="utf-8")
    command = {"mypy": ["--strict", "--follow-imports=silent", "typed"],
               "pyright": ["--pythonpath", sys.executable]}[checker]
    status, said = ran([sys.executable, "-m", checker, *command], tmp_path)
    assert status == 0, said
