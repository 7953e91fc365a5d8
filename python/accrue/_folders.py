"""A folder of images by their classes, whose images a caller's function changes."""

from __future__ import annotations

import os
import pathlib
import typing

from ._accrue import Error

_ENDINGS = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm"}
_TESTS = ("test", "val", "valid", "validation")


class Folder:
    """Samples (image of Pillow, class) of DIR/CLASS/IMAGE, in the order of their paths."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.classes = sorted(entry.name for entry in path.iterdir() if entry.is_dir() and entry.name[0] != ".")
        self.files = [(file, k) for k, name in enumerate(self.classes) for file in sorted((path / name).rglob("*"))
                      if file.suffix.lower() in _ENDINGS]
        if len(self.classes) < 2 or not self.files:
            raise Error(f"'{path}' has {len(self.files)} images in {len(self.classes)} folders, and with transform= a "
                        "folder of images has a folder for each class: expected at least 2")

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[typing.Any, int]:
        from PIL import Image

        file, k = self.files[index]
        try:
            with Image.open(file) as image:
                return image.convert("RGB"), k
        except OSError as error:
            raise Error(f"'{file}' cannot be read: {error}") from error


def folders_of(path: str | os.PathLike[str]) -> tuple[Folder, Folder | None]:
    """The images for training and, if there are some, for the test."""
    try:
        import PIL  # noqa: F401
    except ImportError as error:
        raise Error("transform= of a folder of images needs Pillow, which is not installed") from error
    root = pathlib.Path(path)
    if not root.is_dir():
        raise Error(f"transform is for samples, but data is '{path}': expected a folder of images, or no transform")
    if not (root / "train").is_dir():
        return Folder(root), None
    tests = [root / name for name in _TESTS if (root / name).is_dir()]
    train, test = Folder(root / "train"), Folder(tests[0]) if tests else None
    if test and test.classes != train.classes:
        raise Error(f"'{test.path}' has the classes {', '.join(test.classes)}, but '{train.path}' "
                    f"{', '.join(train.classes)}: expected the same")
    return train, test
