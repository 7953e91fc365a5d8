#!/usr/bin/env python3
"""Writes the golden files of the tests, tests/golden/, with PyTorch and with llama.cpp's gguf.

    scripts/golden.py                  writes the files
    scripts/golden.py --check          compares the committed files with what these packages compute
    scripts/golden.py --check zi2zi    those of golden_zi2zi.py alone

golden_NAME.py says what its files hold. They need torch alone, resnet and fine_tuning torchvision,
text transformers, lora PEFT, too, and quantized_blocks gguf instead.
"""

import argparse
import importlib
import sys

NAMES = ("nets", "unjudged", "contrastive", "text", "lora", "resnet", "fine_tuning", "game", "zi2zi", "random",
         "quantized_blocks")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help=f"{', '.join(NAMES)} (default: all)")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args()
    good = True
    for name in options.names or NAMES:
        module = importlib.import_module(f"golden_{name}")
        if options.check:
            good = module.check() and good
        else:
            module.write()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
