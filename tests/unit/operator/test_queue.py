import asyncio

from backstay_operator.queue import BACKOFF_MOST_SECONDS, Key, Schedule, WorkQueue, backoff_seconds
from hypothesis import given
from hypothesis import strategies as st

A, B, C = (Key("ns", name) for name in "abc")


def done(schedule: Schedule[Key], key: Key, now: float = 0.0, again: float | None = None) -> None:
    schedule.finish(key, failed=False, again=again, now=now, chance=0.0)


def test_a_key_added_twice_gets_one_pass() -> None:
    schedule = Schedule[Key]()
    schedule.add(A, 0)
    schedule.add(A, 0)
    assert (schedule.take(0), schedule.take(0)) == (A, None)


def test_a_key_added_while_its_pass_runs_gets_another_one_afterwards() -> None:
    schedule = Schedule[Key]()
    schedule.add(A, 0)
    assert schedule.take(0) == A
    schedule.add(A, 0)
    assert schedule.take(0) is None
    done(schedule, A)
    assert schedule.take(0) == A


def test_a_running_key_does_not_hold_up_others() -> None:
    schedule = Schedule[Key]()
    schedule.add(A, 0)
    schedule.take(0)
    schedule.add(A, 0)
    schedule.add(B, 1)
    assert schedule.take(1) == B
    assert schedule.next_due() is None
    done(schedule, A)
    assert schedule.next_due() == 0


def test_a_sooner_add_replaces_a_later_one_and_a_later_one_changes_nothing() -> None:
    schedule = Schedule[Key]()
    schedule.add(A, 10)
    schedule.add(A, 5)
    schedule.add(A, 20)
    assert schedule.next_due() == 5
    assert schedule.take(4.9) is None
    assert schedule.take(5) == A
    assert schedule.take(100) is None


def test_who_waits_longest_comes_first() -> None:
    schedule = Schedule[Key]()
    for key, due in ((A, 3.0), (B, 1.0), (C, 2.0)):
        schedule.add(key, due)
    assert [schedule.take(5) for _ in range(3)] == [B, C, A]


def test_a_pass_that_asks_for_the_next_one_gets_it_then() -> None:
    schedule = Schedule[Key]()
    schedule.add(A, 0)
    schedule.take(0)
    done(schedule, A, now=7, again=2)
    assert schedule.next_due() == 9


def test_failures_wait_longer_each_time_and_a_success_starts_anew() -> None:
    schedule = Schedule[Key]()
    waits = []
    for _ in range(3):
        schedule.add(A, 0)
        schedule.take(1000)
        schedule.finish(A, failed=True, again=None, now=0, chance=0.999999)
        waits.append(round(schedule.next_due() or 0, 3))
    assert waits == [0.5, 1.0, 2.0]
    assert schedule.failures(A) == 3
    schedule.take(1000)
    done(schedule, A)
    assert schedule.failures(A) == 0
    assert len(schedule) == 0


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_a_backoff_is_never_above_a_minute_and_at_least_half_of_what_it_could_be(failures: int, chance: float) -> None:
    most = backoff_seconds(failures, 1.0)
    assert most / 2 <= backoff_seconds(failures, chance) <= most <= BACKOFF_MOST_SECONDS


@given(st.lists(st.tuples(st.sampled_from(["add", "take", "finish"]), st.sampled_from([A, B, C]), st.integers(0, 5))))
def test_no_key_is_ever_run_twice_at_once_and_none_is_lost(steps: list[tuple[str, Key, int]]) -> None:
    schedule, running, asked = Schedule[Key](), set[Key](), set[Key]()
    for now, (step, key, delay) in enumerate(steps):
        if step == "add":
            schedule.add(key, now + delay)
            asked.add(key)
        elif step == "take":
            taken = schedule.take(now)
            if taken is not None:
                assert taken not in running
                running.add(taken)
                asked.discard(taken)
        elif key in running:
            running.discard(key)
            done(schedule, key, now)
    for key in running:
        done(schedule, key, 10_000)
    assert {schedule.take(20_000) for _ in asked} == asked
    assert schedule.take(20_000) is None


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_no_more_passes_run_at_once_than_there_are_workers() -> None:
    gate, running, most = asyncio.Event(), 0, 0

    async def work(_: Key) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1

    queue = WorkQueue(work, lambda *_: None, workers=2, clock=Clock())
    task = asyncio.create_task(queue.run())
    for name in "abcdef":
        queue.add(Key("ns", name))
    await settle()
    assert (running, len(queue)) == (2, 4)
    gate.set()
    await settle()
    assert (running, most, len(queue)) == (0, 2, 0)
    task.cancel()


async def test_a_pass_that_fails_is_told_and_tried_again_and_the_others_go_on() -> None:
    clock, passes, told = Clock(), list[Key](), list[tuple[Key, str, int]]()

    async def work(key: Key) -> None:
        passes.append(key)
        if key == A and passes.count(A) < 3:
            raise RuntimeError("no")

    queue = WorkQueue(
        work,
        lambda key, error, in_a_row: told.append((key, str(error), in_a_row)),
        clock=clock,
        chance=lambda: 0.0,
    )
    task = asyncio.create_task(queue.run())
    queue.add(A)
    queue.add(B)
    for _ in range(3):
        await settle()
        clock.now += 10
        queue.add(C)  # wakes the queue, which sees the new time
    await settle()
    assert passes.count(A) == 3
    assert B in passes
    assert told == [(A, "no", 1), (A, "no", 2)]
    task.cancel()


async def test_the_queue_wakes_up_by_itself_when_a_delayed_pass_is_due() -> None:
    passed = asyncio.Event()

    async def work(_: Key) -> None:
        passed.set()

    queue = WorkQueue(work, lambda *_: None)
    task = asyncio.create_task(queue.run())
    queue.add(A, after=0.02)
    await asyncio.wait_for(passed.wait(), 5)
    task.cancel()


async def test_a_full_queue_takes_the_next_key_as_soon_as_a_pass_ends() -> None:
    """The end of a pass and the wake-up of the queue must not miss each other."""
    seen, all_seen = list[Key](), asyncio.Event()
    keys = [Key("ns", str(number)) for number in range(50)]

    async def work(key: Key) -> None:
        seen.append(key)
        await asyncio.sleep(0)
        if len(seen) == len(keys):
            all_seen.set()

    queue = WorkQueue(work, lambda *_: None, workers=1)
    task = asyncio.create_task(queue.run())
    for key in keys:
        queue.add(key)
    await asyncio.wait_for(all_seen.wait(), 5)
    assert seen == keys
    task.cancel()
