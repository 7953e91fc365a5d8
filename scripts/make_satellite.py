#!/usr/bin/env python3
"""Draws images as large as a satellite's, with masks of irregular regions, to train a U-Net on.

    scripts/make_satellite.py DIR [--images 24] [--size 1400x2100] [--classes 4] [--seed 1]

DIR/images/0000.png (RGB) has DIR/masks/0000.png, whose gray value is a pixel's class. Class 0 is
the ground, and each other class covers a few regions with wavy edges. A class differs from the next
by its colour and by the strength of its noise, so a network must look at neighbourhoods. The same
arguments give the same pixels. Needs Python's standard library alone.
"""

import argparse
import itertools
import math
import pathlib
import random
import struct
import zlib

REGIONS = 3  # for each class and image


def size(text):
    height, width = (int(side) for side in text.split("x"))
    if min(height, width) < 16:
        raise argparse.ArgumentTypeError("expected sides of at least 16")
    return height, width


def wave(rng, scale):
    """A smooth function of a row, with amplitudes that add up to `scale`."""
    parts = [(scale / 2 / n, rng.uniform(0.5, 1.5) * n, rng.uniform(0, math.tau))
             for n in (1, 2, 5)]
    return lambda t: sum(a * math.sin(f * math.tau * t + phase) for a, f, phase in parts)


def draw_region(rng, height, width):
    """The rows of a region with the columns [begin, end) that it covers in each."""
    tall, wide = rng.uniform(0.2, 0.5) * height, rng.uniform(0.1, 0.3) * width
    top, middle = rng.uniform(-0.2, 0.8) * height, rng.uniform(0, 1) * width
    left, right = wave(rng, 0.4 * wide), wave(rng, 0.4 * wide)
    for row in range(max(0, int(top)), min(height, int(top + tall))):
        t = (row - top) / tall
        half = wide * math.sqrt(max(0.0, t * (1 - t)))
        begin, end = int(middle - half + left(t)), int(middle + half + right(t))
        if max(begin, 0) < min(end, width):
            yield row, max(begin, 0), min(end, width)


def draw(rng, height, width, classes):
    """The pixels of an image and of its mask, a bytearray for each row."""
    mask = [bytearray(width) for _ in range(height)]
    for region in range(REGIONS * (classes - 1)):
        label = 1 + region % (classes - 1)
        for row, begin, end in draw_region(rng, height, width):
            mask[row][begin:end] = bytes([label]) * (end - begin)
    # For each class and channel, the pixel for each byte of noise.
    tables = []
    for label in range(classes):
        strength = 0.2 + 0.6 * label / classes
        colour = [60 + (label * 37 + channel * 53) % 140 for channel in range(3)]
        tables.append([bytes(max(0, min(255, round(c + strength * (x - 128)))) for x in range(256))
                       for c in colour])
    image = []
    for labels in mask:
        noise, pixels, begin = rng.randbytes(3 * width), bytearray(3 * width), 0
        for label, run in itertools.groupby(labels):
            end = begin + len(list(run))
            for channel, table in enumerate(tables[label]):
                part = slice(3 * begin + channel, 3 * end, 3)
                pixels[part] = noise[part].translate(table)
            begin = end
        image.append(pixels)
    return image, mask


def write_png(path, rows, width, colour_type):
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data +
                struct.pack(">I", zlib.crc32(kind + data)))

    header = struct.pack(">IIBBBBB", width, len(rows), 8, colour_type, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows), 1)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) +
                     chunk(b"IEND", b""))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--images", type=int, default=24)
    parser.add_argument("--size", type=size, default=(1400, 2100), metavar="HxW")
    parser.add_argument("--classes", type=int, default=4, choices=range(2, 17), metavar="2 to 16")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    folders = [options.directory / name for name in ("images", "masks")]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    height, width = options.size
    for number in range(options.images):
        rng = random.Random(options.seed * 1_000_003 + number)
        for folder, rows, colour_type in zip(folders, draw(rng, height, width, options.classes),
                                             (2, 0)):
            write_png(folder / f"{number:04}.png", rows, width, colour_type)
    print(f"{options.images} images {height}x{width} of {options.classes} classes in "
          f"{options.directory}")


if __name__ == "__main__":
    main()
