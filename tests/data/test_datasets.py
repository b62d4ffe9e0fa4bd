"""Named data sets: embedded, from a folder, and downloaded from a server on loopback."""

import gzip
import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pooch
import pytest

from dladmm.data import datasets
from dladmm.data.datasets import FILES, load_dataset


def idx(array):
    sizes = b"".join(n.to_bytes(4, "big") for n in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes()


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """Tiny originals by file name, known to the module as MNIST; no folder, an empty cache."""
    arrays = {
        "x_train": np.arange(3 * 4).reshape(3, 2, 2) * 23,
        "y_train": np.array([3, 1, 2]),
        "x_test": np.full((2, 2, 2), 255),
        "y_test": np.array([9, 0]),
    }
    originals = {FILES[part]: idx(array) for part, array in arrays.items()}
    hashes = {part: hashlib.sha256(originals[file]).hexdigest() for part, file in FILES.items()}
    monkeypatch.setitem(datasets.SHA256, "mnist", hashes)
    monkeypatch.delenv("DLADMM_DATA", raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    return originals


@pytest.fixture
def server(monkeypatch):
    """Files by name, served on loopback as the only mirror of MNIST."""
    files, requests = {}, []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append(self.path)
            content = files.get(self.path.lstrip("/"))
            self.send_response(404 if content is None else 200)
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as serving:
        monkeypatch.setitem(
            datasets.MIRRORS, "mnist", (f"http://127.0.0.1:{serving.server_port}/",)
        )
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield files, requests
        serving.shutdown()
        thread.join()


def check_tiny(data):
    assert (data.x_train.shape, data.x_train.dtype) == ((3, 4), np.float32)
    np.testing.assert_allclose(data.x_train[0], np.array([0, 23, 46, 69]) / 255, rtol=1e-6)
    assert data.x_test.max() == 1
    assert (data.y_train.tolist(), data.y_test.tolist()) == ([3, 1, 2], [9, 0])


def in_cache(tmp_path):
    return [path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_digits_are_embedded_and_split_by_class():
    data = load_dataset("digits")
    assert (data.x_train.shape, data.x_test.shape) == ((1347, 64), (450, 64))
    assert (data.x_train.min(), data.x_train.max(), data.x_train.dtype) == (0, 1, np.float32)
    share = np.bincount(data.y_test) / np.bincount(np.r_[data.y_train, data.y_test])
    assert np.all(np.abs(share - 0.25) < 0.01)


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="'cifar' is unknown; expected one of digits, mnist"):
        load_dataset("cifar")


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("by", ["argument", "environment"])
def test_files_of_a_folder_are_read_gzipped_or_not(tiny, tmp_path, monkeypatch, packed, by):
    (tmp_path / "mnist").mkdir()
    for file, content in tiny.items():
        name, stored = (f"{file}.gz", gzip.compress(content)) if packed else (file, content)
        (tmp_path / "mnist" / name).write_bytes(stored)
    if by == "environment":
        monkeypatch.setenv("DLADMM_DATA", str(tmp_path))
    check_tiny(load_dataset("mnist", tmp_path if by == "argument" else None))


def test_a_users_own_wrong_file_is_refused_and_kept(tiny, tmp_path):
    (tmp_path / "mnist").mkdir()
    wrong = tmp_path / "mnist" / "train-images-idx3-ubyte.gz"
    wrong.write_bytes(gzip.compress(b"something else"))
    with pytest.raises(ValueError, match="is not the original train-images-idx3-ubyte of mnist"):
        load_dataset("mnist", tmp_path)
    assert wrong.exists()


def test_a_folder_without_the_files_says_where_they_should_be(tiny, tmp_path):
    with pytest.raises(ValueError, match=r"there is no .*train-images-idx3-ubyte\.gz"):
        load_dataset("mnist", tmp_path)


def test_a_download_is_checked_and_kept(tiny, server, tmp_path):
    files, requests = server
    # Another compression than the originals' is as good: the content is checked.
    files.update({f"{f}.gz": gzip.compress(c, compresslevel=1) for f, c in tiny.items()})
    check_tiny(load_dataset("mnist"))
    assert sorted(in_cache(tmp_path)) == sorted(files)
    check_tiny(load_dataset("mnist"))
    assert len(requests) == 4


@pytest.mark.parametrize("damage", ["foreign", "truncated", "changed"])
def test_a_wrong_download_is_refused_and_removed(tiny, server, tmp_path, damage):
    files, _ = server
    files.update({f"{f}.gz": gzip.compress(c) for f, c in tiny.items()})
    name = "train-labels-idx1-ubyte"
    files[f"{name}.gz"] = {
        "foreign": b"<html>moved</html>",
        "truncated": files[f"{name}.gz"][:-6],
        "changed": gzip.compress(tiny[name][:-1] + b"\7"),
    }[damage]
    with pytest.raises(ValueError, match="wrong SHA-256, which was removed") as refused:
        load_dataset("mnist")
    assert "\n" not in str(refused.value)
    assert in_cache(tmp_path) == ["train-images-idx3-ubyte.gz"]


def test_a_damaged_cache_is_refused_once_and_then_replaced(tiny, server, tmp_path):
    files, _ = server
    files.update({f"{f}.gz": gzip.compress(c) for f, c in tiny.items()})
    folder = tmp_path / "cache" / "dladmm" / "mnist"
    folder.mkdir(parents=True)
    (folder / "train-images-idx3-ubyte.gz").write_bytes(b"cut")
    with pytest.raises(ValueError, match="which was removed"):
        load_dataset("mnist")
    check_tiny(load_dataset("mnist"))


def test_the_next_mirror_is_tried(tiny, server, monkeypatch):
    files, _ = server
    files.update({f"good/{f}.gz": gzip.compress(c) for f, c in tiny.items()})
    (mirror,) = datasets.MIRRORS["mnist"]
    monkeypatch.setitem(datasets.MIRRORS, "mnist", (f"{mirror}gone/", f"{mirror}good/"))
    check_tiny(load_dataset("mnist"))


def test_a_server_that_is_down_is_one_sentence(tiny, monkeypatch, tmp_path):
    monkeypatch.setitem(datasets.MIRRORS, "mnist", ("http://127.0.0.1:9/",))
    with pytest.raises(ValueError, match="mnist is not available") as refused:
        load_dataset("mnist")
    assert "could not be downloaded (ConnectionError)" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert in_cache(tmp_path) == []
