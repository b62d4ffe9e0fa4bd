"""Messages of the command line besides its results: warnings, and why a file cannot be written."""

import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer


def sentence(error: BaseException) -> str:
    """One line for an error a user can cause."""
    if isinstance(error, MemoryError):
        return f"there is not enough memory ({error})" if str(error) else "memory is used up"
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    return " ".join(str(error).split())


@contextmanager
def echo_warnings(
    messages: list[str] | None = None, ignore_convergence: bool = False
) -> Iterator[list[str]]:
    """Warnings of the block, and messages it adds itself, as single sentences on standard error.

    They are printed when the block has ended well, so that a refusal stands alone, and added to
    `messages` if a list is given.
    """
    own: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        yield own
    for warning in caught:
        is_convergence = warning.category.__name__ == "ConvergenceWarning"
        text = " ".join(str(warning.message).split())
        if text not in own and not (is_convergence and ignore_convergence):
            own.append(text)
    for text in own:
        print_message(text)
    if messages is not None:
        messages.extend(own)


def print_message(text: str) -> None:
    """One sentence on standard error, at once."""
    typer.echo(f"dladmm: {text}", err=True)


def check_writable(path: Path, option: str, keep: Sequence[str] = ()) -> None:
    """ValueError unless a file can be written at `path`; none of the files `keep` may be there."""
    folder = path.resolve().parent
    if path.is_dir():
        raise ValueError(f"{option} {path} is a folder; expected a file to write")
    if not folder.is_dir():
        raise ValueError(f"{option} {path}: there is no folder {folder}")
    if any(Path(file).exists() and path.exists() and path.samefile(file) for file in keep):
        raise ValueError(f"{option} {path} would overwrite what is read; expected another file")
    if path.exists() and not os.access(path, os.W_OK):
        raise ValueError(f"{option} {path} is write-protected; expected a file to write")
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{path.name}."):
            pass
    except OSError as error:
        raise ValueError(f"{option} {path} cannot be written: {error.strerror}") from None


@contextmanager
def claimed(path: Path, option: str) -> Iterator[None]:
    """`path` is this command's while it runs: of two that write one file, one would work in vain.

    Of several processes the first one holds it for all.
    """
    from dladmm.engine.processes import process_index, refused_together
    from dladmm.io.files import lock_file

    lock = path.with_name(f".{path.name}.lock")
    held = None
    with refused_together():
        try:
            held = lock_file(lock) if process_index() == 0 else None
        except BlockingIOError:
            raise ValueError(
                f"{option} {path} is being written by another run; expected another file, or to"
                " wait for it"
            ) from None
    try:
        yield
    finally:
        if held is not None:
            lock.unlink(missing_ok=True)
            held.close()


@contextmanager
def saving(path: Path, what: str) -> Iterator[None]:
    """An error of the system while saving, as a sentence that says what was not saved."""
    try:
        yield
    except OSError as error:
        raise ValueError(
            f"{what} could not be saved to {path}: {error.strerror or error}"
        ) from None
