#!/usr/bin/env python3
"""Writes the golden files of the tests, tests/golden/, with PyTorch and with llama.cpp's gguf.

    scripts/golden.py               writes all existing files anew
    scripts/golden.py zi2zi game    writes these two

golden_NAME.py says what its files hold. All need torch and safetensors. Besides, torchvision and
fine_tuning need torchvision, text transformers, lora PEFT, and quantized_blocks gguf.
python/tests/judges/test_golden.py compares the committed files with what these packages compute.
"""

import argparse
import importlib
import importlib.metadata
import sys

from safetensors.torch import save_file

from golden_files import FOLDER

NETS = ("mlp", "cnn", "resnet", "unet", "unet_padded")
NAMES = sorted(path.stem for path in FOLDER.glob("*.safetensors"))
PACKAGES = ("torch", "torchvision", "transformers", "peft", "gguf")


def module_of(name):
    return importlib.import_module("golden_nets" if name in NETS else f"golden_{name}")


def make(name):
    """The tensors of a file, as the packages compute them."""
    module = module_of(name)
    return module.make(name) if name in NETS else module.make()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", default=NAMES)
    for name in parser.parse_args().names:
        metadata = {"written_by": "scripts/golden.py",
                    **getattr(module_of(name), "prepare", dict)(),
                    **{package: importlib.metadata.version(package) for package in PACKAGES
                       if package in sys.modules}}
        path = FOLDER / f"{name}.safetensors"
        save_file({key: tensor.contiguous() for key, tensor in make(name).items()}, path, metadata)
        print(f"wrote {path}, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
