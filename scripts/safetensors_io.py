"""Reads and writes safetensors files with torch alone.

Format: 8 bytes, the length of the header, little-endian; the header, JSON that gives each tensor's
dtype, shape and place among the data; the data, row-major and little-endian, without gaps.
https://huggingface.co/docs/safetensors
"""

import json
import math
import os

import torch

DTYPES = {"F32": torch.float32, "F64": torch.float64, "I32": torch.int32, "U8": torch.uint8}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def to_bytes(tensor):
    data = bytearray(tensor.numel() * tensor.element_size())
    if data:
        torch.frombuffer(data, dtype=tensor.dtype).copy_(tensor.detach().flatten())
    return data


def write(path, tensors, metadata=None):
    """Writes {name: tensor}; metadata is {str: str}. Replaces the file only when complete."""
    header, chunks, offset = {}, [], 0
    if metadata:
        header["__metadata__"] = metadata
    for name, tensor in tensors.items():
        chunks.append(to_bytes(tensor))
        end = offset + len(chunks[-1])
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that the data is aligned
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for chunk in chunks:
            file.write(chunk)
    os.replace(temporary, path)


def read(path):
    """Returns {name: tensor}. Raises ValueError for what is not a safetensors file."""
    with open(path, "rb") as file:
        content = file.read()
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > len(content) - 8:
        raise ValueError(f"{path}: {len(content)} bytes do not hold the header")
    header = json.loads(content[8:8 + length])
    header.pop("__metadata__", None)
    data = memoryview(content)[8 + length:]
    tensors = {}
    for name, entry in header.items():
        dtype, shape = DTYPES[entry["dtype"]], entry["shape"]
        begin, end = entry["data_offsets"]
        expected = math.prod(shape) * torch.empty(0, dtype=dtype).element_size()
        if not 0 <= begin <= end <= len(data) or end - begin != expected:
            raise ValueError(f"{path}: {name} {shape} needs {expected} bytes, has [{begin}, {end})")
        flat = torch.frombuffer(bytearray(data[begin:end]), dtype=dtype) if expected else \
            torch.empty(0, dtype=dtype)
        tensors[name] = flat.reshape(shape)
    return tensors
