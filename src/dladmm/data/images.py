"""Images: folders of them, one for each class, and JPEG files in an array."""

from collections.abc import Iterator
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")


def read_image_folder(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """(images, labels): (n, height, width, channels) between 0 and 1, and the sub-folders' names.

    ValueError where there are no images, or they are not of one size.
    """
    files = _files(folder)
    images = [decoded(path) for path, _ in files]
    shapes = {image.shape for image in images}
    if len(shapes) > 1:
        raise ValueError(
            f"the images of {folder} have the sizes {sorted(shapes)[:3]}; expected all of one size"
            " and number of channels"
        )
    labels = np.array([label for _, label in files], dtype=object)
    return np.stack(images), labels


def image_shape(folder: Path) -> tuple[int, ...]:
    """Of the first image of a folder: (height, width, channels)."""
    return decoded(_files(folder)[0][0]).shape


def _files(folder: Path) -> list[tuple[Path, str]]:
    """Every image with the name of its sub-folder; ValueError where there is none."""
    files = [
        (path, part.name)
        for part in sorted(folder.iterdir())
        if part.is_dir()
        for path in sorted(part.iterdir())
        if path.suffix.lower() in SUFFIXES
    ]
    if not files:
        raise ValueError(
            f"{folder} has no images; expected a sub-folder for each class, with files such as .png"
        )
    return files


def decoded(source: Any) -> np.ndarray:
    """(height, width, channels) as float32 between 0 and 1; one channel where it is grey."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise ValueError(
            "images need Pillow, which is not installed; expected pip install 'dladmm[images]'"
        ) from None
    try:
        with Image.open(source) as image:
            grey = image.mode in ("1", "L", "I", "I;16", "F")
            pixels = np.asarray(image.convert("L" if grey else "RGB"), np.float32) / np.float32(255)
    except (UnidentifiedImageError, OSError) as error:
        raise ValueError(
            f"{source} is no image ({error}); expected one that Pillow reads"
        ) from None
    return pixels[..., None] if pixels.ndim == 2 else pixels


def jpeg_images(stored: np.ndarray, offsets: np.ndarray) -> Iterator[np.ndarray]:
    """The images of JPEG files whose bytes are one after the other in an array."""
    for start, end in pairwise(offsets):
        yield decoded(BytesIO(stored[start:end].tobytes()))
