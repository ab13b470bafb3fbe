"""Users that ask again and again, each in a thread of its own."""

import threading
import time
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from backstay_cli.bench import mix
from backstay_cli.bench.figures import Answer
from backstay_cli.bench.mix import Question, Scale

Ask = Callable[[Question], Answer]


class Think(NamedTuple):
    """Seconds between an answer and the user's next question."""

    low: float = 0.0
    high: float = 0.0


BUSY = Think()
THINKING = Think(2.0, 5.0)


class Load(NamedTuple):
    """How a load goes about it."""

    users: int
    think: Think
    seconds: float
    """At most."""
    requests: int | None = None
    """Enough; None: go on to the end of the time."""
    scale: Scale = Scale()


def run(ask: Ask, load: Load, seed: int, tell: Callable[[int], None] = lambda _: None) -> list[Answer]:
    """The answers of a load, in the order of their ends; a request that began in time is waited for."""
    answers: list[Answer] = []
    lock, over = threading.Lock(), threading.Event()
    deadline = time.monotonic() + load.seconds

    def user(number: int) -> None:
        random = Random(f"{seed}-{number}")  # noqa: S311 - questions, not keys
        over.wait(random.uniform(0, load.think.high))
        while not over.is_set() and time.monotonic() < deadline:
            answer = ask(mix.question(random, load.scale))
            with lock:
                answers.append(answer)
                if load.requests is not None and len(answers) >= load.requests:
                    over.set()
            tell(1)
            pause = random.uniform(load.think.low, load.think.high)
            if answer.error is not None:
                pause = max(pause, 0.2)  # a server that refuses at once is not hammered
            over.wait(min(pause, max(0.0, deadline - time.monotonic())))

    threads = [threading.Thread(target=user, args=(number,), daemon=True) for number in range(load.users)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers
