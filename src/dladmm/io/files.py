"""Files are written whole or not at all, and by one process at a time."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`, which replaces it when the block ends without an error.

    On any error the temporary file is removed and an older file at `path` is kept.
    """
    path = Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent or Path())
    os.close(handle)
    part = Path(name)
    try:
        yield part
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)  # mkstemp is private; a result is as readable as other files
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_file(path: Path, content: str | bytes) -> None:
    """A file of this content, whole or not at all; text is UTF-8."""
    with write_atomically(path) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def lock_file(path: Path) -> IO[str] | None:
    """A file that one process can hold, until it closes it or ends in whatever way.

    BlockingIOError where another one holds it; None where the system, or the file system, has no
    such locks. Whoever holds it may remove it.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    while True:
        file = path.open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise BlockingIOError(f"{path} is held by another process") from None
            return None
        try:
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        except FileNotFoundError:
            pass
        file.close()  # another one has removed it meanwhile, and it holds nothing
