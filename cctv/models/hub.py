"""A checkpoint by folder or by Hugging Face hub id."""

import re
from pathlib import Path

from cctv.data.errors import UserError

HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
FILES = ("*.safetensors", "*.safetensors.index.json", "*.json", "merges.txt", "vocab.txt")


def resolve(path: str) -> Path:
    """The local folder of a checkpoint; a hub id is downloaded (or found in the hub's cache).

    UserError with one line when it is neither, or the hub can't be reached.
    """
    if Path(path).is_dir():
        return Path(path)
    if Path(path).exists() or not HUB_ID.fullmatch(path):
        raise UserError(f"config.model.path={path!r} is no folder and no hub id (owner/name)")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return Path(snapshot_download(path, allow_patterns=list(FILES)))
    # Its bases are OSError and the HTTP library's own error, whichever library that is.
    except (*HfHubHTTPError.__bases__, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UserError(
            f"config.model.path={path!r} is no folder, and the hub did not give it ({reason}); "
            "give a local checkpoint folder"
        ) from None
