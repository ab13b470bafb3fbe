"""Stop strings in a text that arrives in pieces, wherever the pieces are cut. Pure."""

from collections.abc import Sequence


class StopStrings:
    """Lets text through up to the first stop string, and holds back whatever could be the beginning of one."""

    def __init__(self, stops: Sequence[str]) -> None:
        """`stops`: none of them empty."""
        self._stops = tuple(stops)
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        """The text that can be shown now. After a stop string nothing more comes."""
        if self.stopped:
            return ""
        text = self._held + text
        places = [place for stop in self._stops if (place := text.find(stop)) >= 0]
        if places:
            self.stopped, self._held = True, ""
            return text[: min(places)]
        keep = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def flush(self) -> str:
        """What was held back, when the text ends without a stop string."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """The longest end of `text` that is a beginning of `stop`, in characters."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
