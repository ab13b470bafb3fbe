"""Why a model folder cannot be loaded."""


class ModelError(Exception):
    """The model's files do not fit together; the message names the file, the field or tensor, and the remedy."""
