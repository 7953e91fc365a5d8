"""The golden file quantized_blocks.safetensors: blocks of quantized weights and their values, by
PyPI's `gguf`, llama.cpp's own package. The file holds

    blocks.TYPE     U8  [3, bytes of a block]      random bits, with scales that are numbers
    elements.TYPE   F32 [3, elements of a block]   the values of these blocks
    weights         F32 [9, 32]                    zeros, a constant, halves and quarters, large and
                                                   small numbers, and normal random numbers
    quantized.TYPE  U8  [9, bytes of a block]      these weights as Q4_0, Q4_1 and Q8_0
"""

import random
import struct

import gguf
import numpy
import torch
from gguf import GGMLQuantizationType as Type

TOLERANCE = 0
# The places of the float16 numbers in a block.
SCALES = {Type.F16: (), Type.BF16: (), Type.Q4_0: (0,), Type.Q4_1: (0, 2), Type.Q5_0: (0,),
          Type.Q5_1: (0, 2), Type.Q8_0: (0,), Type.Q4_K: (0, 2), Type.Q6_K: (208,)}


def block_of(generator, kind):
    block = bytearray(generator.randbytes(gguf.GGML_QUANT_SIZES[kind][1]))
    if kind in (Type.F16, Type.BF16):
        block[1] &= 0x3f  # neither infinite nor NaN
    for at in SCALES[kind]:
        # Some scales are denormal.
        scale = generator.uniform(-1, 1) * generator.choice((1, 1e-2, 1e-6))
        block[at:at + 2] = struct.pack("<e", scale)
    return bytes(block)


def weights_of(generator):
    rows = [[0.0] * 32, [0.75] * 32, [-3.0] * 32, [1e-30 * i for i in range(32)]]
    rows += [[generator.randrange(-8, 9) / 4 for _ in range(32)] for _ in range(2)]
    rows += [[generator.gauss(0, scale) for _ in range(32)] for scale in (0.02, 1, 1000)]
    return numpy.array(rows, dtype=numpy.float32)


def make():
    generator = random.Random("blocks")
    tensors = {}
    for kind in SCALES:
        blocks = numpy.array([list(block_of(generator, kind)) for _ in range(3)],
                             dtype=numpy.uint8)
        tensors[f"blocks.{kind.name}"] = blocks
        tensors[f"elements.{kind.name}"] = gguf.quants.dequantize(blocks, kind)
    tensors["weights"] = weights_of(generator)
    for kind in (Type.Q4_0, Type.Q4_1, Type.Q8_0):
        tensors[f"quantized.{kind.name}"] = gguf.quants.quantize(tensors["weights"], kind)
    return {name: torch.from_numpy(tensor) for name, tensor in tensors.items()}
