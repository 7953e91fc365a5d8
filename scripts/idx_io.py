"""Reads MNIST's IDX files, plain or gzip, into torch tensors of bytes."""

import gzip
import math
import pathlib

import torch

FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte",
         "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def find(directory, name):
    for path in (pathlib.Path(directory) / name, pathlib.Path(directory) / f"{name}.gz"):
        if path.is_file():
            return path
    raise FileNotFoundError(f"{directory} holds neither {name} nor {name}.gz")


def read(directory, name):
    """Returns a u8 tensor of the file's shape."""
    path = find(directory, name)
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
        magic = file.read(4)
        if len(magic) < 4 or magic[:3] != b"\0\0\x08":
            raise ValueError(f"{path}: not an IDX file of bytes")
        shape = [int.from_bytes(file.read(4), "big") for _ in range(magic[3])]
        data = bytearray(math.prod(shape))
        if file.readinto(data) != len(data):
            raise ValueError(f"{path}: shorter than its shape {shape}")
    return torch.frombuffer(data, dtype=torch.uint8).reshape(shape)


def pixels(images, dtype=torch.float32):
    """Bytes as the networks see them: in [-1, 1]."""
    return images.to(dtype).div_(255).sub_(0.5).div_(0.5)
