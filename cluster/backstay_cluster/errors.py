"""The one error that commands report without a traceback."""


class ClusterError(Exception):
    """Something a person can mend: the message names what failed, with which value, and what to do about it."""
