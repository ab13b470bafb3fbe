"""Texts to token ids and back, with the tokenizer that travels with the model."""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import tokenizers

from backstay_runtime.model.errors import ModelError


class Tokenizer:
    """tokenizer.json of a model folder. Thread-safe: nothing changes after it is made."""

    def __init__(self, folder: Path) -> None:
        path = folder / "tokenizer.json"
        try:
            text = path.read_text(encoding="utf-8")
            self._tokenizer = tokenizers.Tokenizer.from_str(text)
            kinds = _decoders(json.loads(text).get("decoder"))
        except Exception as why:  # the library raises bare Exception
            raise ModelError(f"{path.name} cannot be read: {why}") from why
        self._bytes_as_letters = "ByteLevel" in kinds
        self._added = {index: token.content for index, token in self._tokenizer.get_added_tokens_decoder().items()}
        self.size = self._tokenizer.get_vocab_size(with_added_tokens=True)
        self.token_bytes = lru_cache(maxsize=65536)(self._token_bytes)

    def encode(self, text: str, *, add_special: bool = True) -> list[int]:
        """The text's token ids. Special tokens written in it are parsed; `add_special` adds those that the model
        wants around every text, which a chat template has written already."""
        return list(self._tokenizer.encode(text, add_special_tokens=add_special).ids)

    def decode(self, ids: list[int], *, skip_special: bool = True) -> str:
        """The ids' text; bytes that are no valid UTF-8 become U+FFFD."""
        return str(self._tokenizer.decode(ids, skip_special_tokens=skip_special))

    def token(self, id_: int) -> str:
        """One token for people: its text, or `bytes:\\xf0\\x9f` where it is only a part of a character."""
        raw = self.token_bytes(id_)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)

    def _token_bytes(self, id_: int) -> bytes:
        """What the token adds to a text, in UTF-8 or a part of it; empty for an id that has no token."""
        if id_ in self._added:
            return self._added[id_].encode()
        token = self._tokenizer.id_to_token(id_)
        if token is None:
            return b""
        return _from_letters(token) if self._bytes_as_letters else _from_pieces(token)


def _decoders(decoder: dict[str, Any] | None) -> set[str]:
    if decoder is None:
        return set()
    parts = decoder.get("decoders") or [decoder]
    return {part["type"] for part in parts}


def _letters() -> dict[str, int]:
    """The letter with which byte-level encodings write each byte: printable Latin-1 as itself, the rest from U+0100."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {chr(byte): byte for byte in plain}
    others = (byte for byte in range(256) if byte not in plain)
    letters.update({chr(0x100 + place): byte for place, byte in enumerate(others)})
    return letters


_BYTE_OF_LETTER = _letters()


def _from_letters(token: str) -> bytes:
    return b"".join(
        bytes([_BYTE_OF_LETTER[letter]]) if letter in _BYTE_OF_LETTER else letter.encode() for letter in token
    )


def _from_pieces(token: str) -> bytes:
    """Pieces with ▁ for a space, and `<0xF0>` for a byte that no piece holds."""
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        return bytes([int(token[3:5], 16)])
    return token.replace("\u2581", " ").encode()
