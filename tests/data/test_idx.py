"""IDX files: what is read, and what each broken one is told."""

import numpy as np
import pytest

from dladmm.data.idx import ENTRY_TYPES, parse_idx

MATRIX = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6])


def test_bytes_are_read_in_their_shape():
    np.testing.assert_array_equal(parse_idx(MATRIX, "f"), [[1, 2, 3], [4, 5, 6]])


@pytest.mark.parametrize("code", ENTRY_TYPES)
def test_every_type_is_big_endian_in_the_file_and_native_in_the_array(code):
    entries = np.array([1, 2, 100], dtype=ENTRY_TYPES[code])
    parsed = parse_idx(bytes([0, 0, code, 1, 0, 0, 0, 3]) + entries.tobytes(), "f")
    np.testing.assert_array_equal(parsed, [1, 2, 100])
    assert parsed.dtype.isnative


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "expected an IDX file"),
        (b"PK\x03\x04 a zip", "starts with the bytes 50 4b 03 04"),
        (bytes([0, 0, 7, 1, 0, 0, 0, 0]), "expected an IDX file"),
        (MATRIX[:7], "inside its header"),
        (MATRIX[:-1], "truncated: it has 17 bytes; expected 18"),
        (MATRIX + b"\0", "goes on after its data"),
    ],
)
def test_what_is_not_one_whole_idx_is_refused_by_name(content, words):
    with pytest.raises(ValueError, match=words) as refused:
        parse_idx(content, "some-file")
    assert str(refused.value).startswith("some-file")
