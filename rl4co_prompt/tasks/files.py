"""Files that are read whole and never left half-written."""

import os
import tempfile

from collections.abc import Iterable
from pathlib import Path


def read_text(path: Path) -> str:
    """A text file; a binary one is an error."""
    if not path.is_file():
        raise FileNotFoundError(f"No file at {path}.")
    text = path.read_bytes().decode("utf-8-sig", errors="replace")
    if "\0" in text:
        raise ValueError(f"{path} is no text file.")
    return text


def check_output(path: Path, folder: bool = False) -> None:
    """Raise a one-sentence error, before any work, where nothing could be written.

    Args:
        folder: whether files will be put in it, or it is a file itself.
    """
    if not folder and path.is_dir():
        raise ValueError(f"{path} is a folder; name a file.")
    home = path.absolute() if folder else path.absolute().parent
    there = next(part for part in (home, *home.parents) if part.exists())
    if not there.is_dir():
        raise ValueError(f"{path} can't be written: {there} is no folder.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ValueError(f"{path} can't be written: {there} does not allow it.")


def check_free(paths: Iterable[Path], force: bool = False) -> None:
    """Raise a one-sentence error for files that are there, unless forced."""
    there = next((path for path in paths if path.exists()), None)
    if there is not None and not force:
        raise ValueError(f"{there} is there already; name another place, or add --force.")


def write_text(path: str | Path, text: str) -> Path:
    """Write text; nothing half-written stays."""
    return write_bytes(path, text.encode())


def write_bytes(path: str | Path, data: bytes) -> Path:
    """Write to a temporary file beside it, then rename."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path
