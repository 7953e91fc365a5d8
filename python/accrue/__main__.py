"""The program accrue, which is installed beside the module."""

import os
import pathlib
import sys


def main():
    program = pathlib.Path(__file__).parent / "bin" / "accrue"
    os.execv(program, ["accrue", *sys.argv[1:]])


if __name__ == "__main__":
    main()
