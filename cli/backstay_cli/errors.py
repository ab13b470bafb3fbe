"""What the command line gives up with. Each kind has its own exit code, so that scripts can tell them apart."""

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes; 2 is typer's own for wrong usage."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    REFUSED = 3
    """The input is refused: a pickle, a broken file, a uri that holds another model already."""
    MISMATCH = 4
    """Bytes are not the ones that a digest names."""
    NOT_FOUND = 5
    FORBIDDEN = 6
    UNREACHABLE = 7
    TIMEOUT = 8
    """What --wait waits for did not come about in time; it may still."""
    BREACH = 10
    """backstay judge: its verdicts other than Pass."""
    INCONCLUSIVE = 11
    NO_DATA = 12


EXIT_HELP = (
    "Exit codes: 0 done · 1 internal error · 2 wrong usage · 3 refused · 4 digest mismatch · 5 not found · "
    "6 forbidden · 7 unreachable · 8 not in time · 10 Breach · 11 Inconclusive · 12 NoData"
)


class CliError(Exception):
    """The command gives up; the message names the field or file, its value and the remedy."""

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(message)
        self.code = code


def refused(message: str) -> CliError:
    return CliError(message, Exit.REFUSED)


def usage(message: str) -> CliError:
    return CliError(message, Exit.USAGE)
