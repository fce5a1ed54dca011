"""Tokenizers read from a checkpoint folder's own files, without a network.

A prompt is built from pieces: `Tokenizer.encode` for text, `Tokenizer.id` for control tokens. Text
can therefore never smuggle a control token in, and control tokens are never spelled as text.
"""

from collections.abc import Iterable
from pathlib import Path

import tokenizers

from cctv.data.errors import UserError

OLDER_FILES = (
    ("tokenizer_config.json", "vocab.json", "merges.txt"),
    ("tokenizer_config.json", "tokenizer.model"),
)


class Tokenizer:
    """Text to token ids and back. Made by `load`; `source` names it in errors."""

    def __init__(self, backend: tokenizers.Tokenizer, *, source: str):
        self._backend = backend
        self._source = source
        backend.no_padding()  # a saved tokenizer may carry a batch's padding and truncation
        backend.no_truncation()
        added = backend.get_added_tokens_decoder()
        self._control = {token.content: index for index, token in added.items()}

    def __len__(self) -> int:
        """Number of tokens, the added ones included (a model's embedding may have more rows)."""
        return self._backend.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str) -> list[int]:
        """Ids of plain text, nothing added. UserError if the text contains a control token."""
        found = [token for token in self._control if token in text]
        if found:
            token = min(found, key=lambda t: (text.index(t), -len(t)))
            raise UserError(f"the text contains the control token {token!r}: remove it ({text!r})")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UserError(f"the text is not valid Unicode: {text!r}") from None
        return self._backend.encode(text, add_special_tokens=False).ids

    def id(self, token: str) -> int:
        """Id of one control token. UserError if the tokenizer has no such token."""
        if token not in self._control:
            raise UserError(f"{self._source}: the tokenizer has no token {token!r}")
        return self._control[token]

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """Text of token ids; tokens marked special (end of turn, …) are left out by default."""
        return self._backend.decode([int(i) for i in ids], skip_special_tokens=skip_special)

    def answer_ids(self) -> tuple[int, int]:
        """(yes, no): the ids of "Yes" and "No" as they begin an answer. UserError if not single."""
        return self._single("Yes"), self._single("No")

    def _single(self, word: str) -> int:
        ids = self.encode(word)
        if len(ids) != 1:
            raise UserError(f"{self._source}: {word!r} is {len(ids)} tokens here, not one")
        return ids[0]


def check(tokenizer: Tokenizer, folder: Path, *, control: dict[str, int], vocab_size: int) -> None:
    """UserError unless control tokens have the ids that config.json says and all tokens fit."""
    for token, said in control.items():
        found = tokenizer.id(token)
        if found != said:
            raise UserError(f"{folder}: {token} is token {found} but config.json says {said}")
    if len(tokenizer) > vocab_size:
        raise UserError(f"{folder}: {len(tokenizer)} tokens, but the model knows {vocab_size}")


def files(path: str | Path) -> list[Path]:
    """What `load` reads of a folder, sorted; [] where it would raise."""
    path = Path(path)
    if (path / "tokenizer.json").is_file():
        return [path / "tokenizer.json"]
    named = {name for names in OLDER_FILES for name in names} | {"special_tokens_map.json"}
    return [path / name for name in sorted(named) if (path / name).is_file()]


def load(path: str | Path) -> Tokenizer:
    """The tokenizer of a checkpoint folder: tokenizer.json, or the older files beside a config.

    Raises FileNotFoundError without a folder or its files, UserError when they can't be read.
    """
    path = Path(path)
    if not path.is_dir():
        raise FileNotFoundError(f"{path}: no such checkpoint folder")
    fast = path / "tokenizer.json"
    if fast.is_file():
        return Tokenizer(_from_json(fast), source=str(path))
    # Checked here because transformers makes an empty tokenizer out of a config alone.
    if any(all((path / name).is_file() for name in names) for names in OLDER_FILES):
        return Tokenizer(_from_config(path), source=str(path))
    raise FileNotFoundError(
        f"{path}: no tokenizer.json (nor tokenizer_config.json with vocab.json and merges.txt, or"
        " with tokenizer.model); copy the checkpoint's tokenizer files there"
    )


def _from_json(path: Path) -> tokenizers.Tokenizer:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text ({error})") from None
    try:
        return tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # noqa: BLE001 - the library raises the bare class, nothing narrower
        raise UserError(f"{path}: not a tokenizer file ({error})") from None


def _from_config(path: Path) -> tokenizers.Tokenizer:
    from transformers import AutoTokenizer  # slow to import, and needed for such folders only

    try:
        # Without the switch it asks on the terminal whether to run code that config.json names.
        slow = AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path}: the tokenizer files do not load ({_first_line(error)})") from None
    backend = getattr(slow, "backend_tokenizer", None)
    if backend is None:
        raise UserError(f"{path}: {type(slow).__name__} has no fast form; save a tokenizer.json")
    return backend


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
