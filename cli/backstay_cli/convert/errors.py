"""What the converter says when it gives up."""


class ConvertError(Exception):
    """The input cannot be converted; the message names the field, its value and what to do."""
