"""How many tokens one step may compute. Pure."""


class TokenBudget:
    """Counts down the tokens of one step.

    Sequences that decode come first and take one token each; what is left goes to prompts, in chunks. So a long
    prompt delays the others' next token by one chunk and not by the whole prompt.
    """

    def __init__(self, tokens: int) -> None:
        self.left = tokens

    def grant(self, wanted: int) -> int:
        """As many of the wanted tokens as are left; they are gone then."""
        granted = min(wanted, self.left)
        self.left -= granted
        return granted

    def return_(self, tokens: int) -> None:
        """Gives back what a preempted sequence had been granted."""
        self.left += tokens
