"""Texts to token ids for encoders: special tokens around each, cut at the model's longest."""

from pathlib import Path

import tokenizers

from backstay_runtime.model.errors import ModelError


class PieceTokenizer:
    """tokenizer.json of a model folder, with truncation of our own and no padding. Thread-safe."""

    def __init__(self, folder: Path, longest: int) -> None:
        """`longest`: tokens of a text, special ones included; what comes after them is left out."""
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as why:  # the library raises bare Exception
            raise ModelError(f"tokenizer.json cannot be read: {why}") from why
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(longest)
        self.longest = longest
        self.size: int = self._tokenizer.get_vocab_size(with_added_tokens=True)

    def encode(self, texts: list[str]) -> list[list[int]]:
        """The token ids of each text."""
        return [list(one.ids) for one in self._tokenizer.encode_batch(texts)]
