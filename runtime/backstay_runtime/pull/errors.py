"""What ends a pull, what is worth another try, and what means that an object was replaced meanwhile."""

from backstay_contract.termination import GaveUp, Termination


class PullError(Exception):
    """The pull gives up. The message names the file or setting, what was expected, what was found, the remedy."""

    def __init__(
        self,
        reason: GaveUp,
        message: str,
        *,
        path: str | None = None,
        expected: str | None = None,
        actual: str | None = None,
    ) -> None:
        super().__init__(message)
        self.termination = Termination(reason=reason, message=message, path=path, expected=expected, actual=actual)


class TransientError(Exception):
    """The storage failed in a way that often passes: a timeout, a reset, a 5xx, a slow-down."""


class ObjectChangedError(Exception):
    """The object is no longer the one whose ETag was seen first: somebody replaced it."""


def mismatch(path: str, expected: str, actual: str, what: str = "SHA-256") -> PullError:
    """The bytes of `path` are not the manifest's; no other try with the same digest can cure that."""
    return PullError(
        GaveUp.DIGEST_MISMATCH,
        f"{path}: {what} is {actual}, the manifest says {expected}; push the model again under a new version",
        path=path,
        expected=expected,
        actual=actual,
    )
