"""Named data sets: digits comes with scikit-learn, MNIST and Fashion-MNIST as checked files, others
from a data directory.

What is checked is the SHA-256 of the decompressed bytes: mirrors compress differently.
"""

import gzip
import hashlib
import logging
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from dladmm.data.idx import IdxFile, open_unpacked
from dladmm.data.images import jpeg_images
from dladmm.data.sequences import padded

IDX_NAMES = ("mnist", "fashion-mnist")
# Read from a data directory alone: the file under it, and the shape of a sample.
STORED = {
    "mnist1d": ("sequences/mnist1d.npz", (40, 1)),
    "japanese-vowels": ("sequences/japanese-vowels.npz", (29, 13)),
    "cifar10-jpeg": ("cifar10-jpeg/{part}.npz", (32, 32, 3)),
}
NAMES = ("digits", *IDX_NAMES, *STORED)
# Of one sample; its rows have all numbers of it.
SHAPES = {
    "digits": (8, 8, 1),
    **dict.fromkeys(IDX_NAMES, (28, 28, 1)),
    **{name: shape for name, (_, shape) in STORED.items()},
}
DATA_DIR_VARIABLE = "DLADMM_DATA"

FILES = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}
SHA256 = {
    "mnist": {
        "x_train": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "y_train": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "x_test": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "y_test": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
    "fashion-mnist": {
        "x_train": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "y_train": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "x_test": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "y_test": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    },
}
# Tried in order; each holds the four files of FILES, gzipped, under their names plus ".gz".
MIRRORS = {
    "mnist": (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    "fashion-mnist": (
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    ),
}
TIMEOUT_SECONDS = 60
# No file is larger; a foreign archive that unpacks without end is cut here and fails the check.
LARGEST_FILE = 2**26


@dataclass(frozen=True)
class Dataset:
    """Samples as rows, float32 between 0 and 1; labels as integers."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    name: str


def load_dataset(name: str, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """The data set of this name, whole and checked.

    MNIST and Fashion-MNIST are read from `<data_dir>/<name>/`, or the folder that the environment
    variable DLADMM_DATA names; without either they are downloaded once, into pooch's cache.
    """
    if name not in NAMES:
        raise ValueError(f"data set {name!r} is unknown; expected one of {', '.join(NAMES)}")
    if name == "digits":
        return _digits()
    return Dataset(*load_part(name, data_dir, "train"), *load_part(name, data_dir, "test"), name)


def load_part(
    name: str, data_dir: str | os.PathLike[str] | None, part: Literal["train", "test"]
) -> tuple[np.ndarray, np.ndarray]:
    """The samples and labels of one part."""
    if name == "digits":
        digits = _digits()
        return getattr(digits, f"x_{part}"), getattr(digits, f"y_{part}")
    if name in STORED:
        return _stored(name, data_dir, part)
    images, labels = (idx_file(name, data_dir, f"{array}_{part}").read() for array in "xy")
    return scaled(images), labels.astype(np.int64)


def idx_file(name: str, data_dir: str | os.PathLike[str] | None, part: str) -> IdxFile:
    """The checked file of `part`, a key of FILES, of MNIST or Fashion-MNIST."""
    folder = data_dir or os.environ.get(DATA_DIR_VARIABLE)
    file, wanted = FILES[part], SHA256[name][part]
    if folder:
        return IdxFile(_from_folder(Path(folder), name, file, wanted))
    return IdxFile(_from_mirrors(name, file, wanted))


def scaled(images: np.ndarray) -> np.ndarray:
    """Images as rows, between 0 and 1."""
    return images.reshape(len(images), -1).astype(np.float32) / np.float32(255)


def _stored(
    name: str, data_dir: str | os.PathLike[str] | None, part: str
) -> tuple[np.ndarray, np.ndarray]:
    """Of arrays in a data directory, under the names that their authors gave them.

    Sequences of unequal length have one channel more, as `padded` makes it.
    """
    folder = data_dir or os.environ.get(DATA_DIR_VARIABLE)
    file = STORED[name][0].format(part=part)
    if not folder or not (Path(folder) / file).is_file():
        raise ValueError(
            f"{name} is read from a data directory, and there is no {file} in"
            f" {folder or 'any'}; expected --data-dir or {DATA_DIR_VARIABLE} to name its folder"
        )
    with np.load(Path(folder) / file, allow_pickle=False) as arrays:
        if "jpeg" in arrays:
            images = list(jpeg_images(arrays["jpeg"], arrays["offsets"]))
            return np.stack(images).reshape(len(images), -1), arrays["labels"].astype(np.int64)
        x, y = arrays[f"x_{part}"].astype(np.float32), arrays[f"y_{part}"].astype(np.int64)
        lengths = arrays.get(f"length_{part}")
    if lengths is not None:
        pairs = zip(x, lengths, strict=True)
        x = padded([one[:n] for one, n in pairs], STORED[name][1]).astype(np.float32)
    return x.reshape(len(x), -1), y


def _digits() -> Dataset:
    """scikit-learn's 1,797 digits of 8 by 8 pixels, a quarter of each class kept for the test."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(
        images.astype(np.float32) / np.float32(16),
        labels.astype(np.int64),
        test_size=0.25,
        stratify=labels,
        random_state=0,
    )
    return Dataset(x_train, y_train, x_test, y_test, "digits")


def _is_original(path: Path, wanted: str) -> bool:
    """Whether the hash of the decompressed file is the wanted one; read and forgotten."""
    digest, left = hashlib.sha256(), LARGEST_FILE
    try:
        with open_unpacked(path) as stream:
            while left > 0 and (content := stream.read(min(left, 2**20))):
                digest.update(content)
                left -= len(content)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return False
    return digest.hexdigest() == wanted


def _from_folder(folder: Path, name: str, file: str, wanted: str) -> Path:
    """A user's own file: refused if it is not the original, and left where it is."""
    candidates = [folder / name / f"{file}.gz", folder / name / file]
    found = next((path for path in candidates if path.is_file()), None)
    if found is None:
        raise ValueError(
            f"there is no {candidates[0]}; expected the files of {name} in {folder / name},"
            " gzipped or not, or no data directory, to download them"
        )
    if not _is_original(found, wanted):
        raise ValueError(
            f"{found} is not the original {file} of {name}: the SHA-256 of its decompressed bytes"
            f" differs from {wanted}"
        )
    return found


def _from_mirrors(name: str, file: str, wanted: str) -> Path:
    """The file from pooch's cache or the first mirror that has it; what fails is not kept."""
    import pooch
    import requests

    failures = []
    for mirror in MIRRORS[name]:
        url = f"{mirror}{file}.gz"
        try:
            with _quiet(pooch.get_logger()):
                path = pooch.retrieve(
                    url,
                    known_hash=None,  # mirrors compress differently: what is inside is checked
                    fname=f"{file}.gz",
                    path=pooch.os_cache("dladmm") / name,
                    downloader=pooch.HTTPDownloader(timeout=TIMEOUT_SECONDS),
                )
        except requests.RequestException as error:
            failures.append(f"{url} could not be downloaded ({type(error).__name__})")
            continue
        if _is_original(Path(path), wanted):
            return Path(path)
        Path(path).unlink(missing_ok=True)
        failures.append(f"{url} gave a file with the wrong SHA-256, which was removed")
    raise ValueError(
        f"{name} is not available: {'; '.join(failures)}; with the files at hand, name their"
        f" folder by --data-dir or {DATA_DIR_VARIABLE}"
    )


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Without pooch's advice to pin a hash, which is checked here in another way."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
