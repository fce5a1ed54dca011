"""Files that are whole or not there, whatever happens while they are written."""

import os
from pathlib import Path


def write_text(path: str | Path, text: str, *, errors: str = "strict") -> None:
    """Replaces a UTF-8 file as a whole, synced to disk, or leaves what was there.

    `errors`: what becomes of text that UTF-8 can't hold, as in `str.encode`. OSError names the
    file.
    """
    path = Path(path)
    data = text.encode("utf-8", errors)
    part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        try:
            with open(part, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
            sync_folder(path.parent)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(error.errno, f"can't write {path}: {error.strerror}") from error


def sync_folder(path: str | Path) -> None:
    """Makes the names of new files survive a power cut."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
