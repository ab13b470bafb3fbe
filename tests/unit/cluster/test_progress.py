from io import StringIO

import pytest
from backstay_cluster.progress import HEARTBEAT_S, Progress


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_step_is_told_when_it_ends_with_its_seconds() -> None:
    output, clock = StringIO(), Clock()
    progress = Progress(output, clock)
    clock.now = 2.0
    with progress.step("build kube") as step:
        step.note = "7 packages"
        clock.now = 5.5
    assert output.getvalue() == "   5.5 s  done    build kube  7 packages  (3.5 s)\n"


def test_a_failing_step_is_told_and_the_error_goes_on() -> None:
    output = StringIO()
    with pytest.raises(ValueError, match="no"), Progress(output, Clock()).step("build"):
        raise ValueError("no")
    assert "failed  build" in output.getvalue()


def test_a_long_step_says_every_while_what_it_waits_for_and_not_more_often() -> None:
    output, clock = StringIO(), Clock()
    with Progress(output, clock).step("build") as step:
        for second in range(int(3 * HEARTBEAT_S)):
            clock.now = float(second)
            step.waits_for(f"package {second}")
    lines = output.getvalue().splitlines()[:-1]
    assert [line.split("waits for ")[1] for line in lines] == ["package 15", "package 30"]


def test_brackets_in_a_message_are_no_markup() -> None:
    output = StringIO()
    Progress(output).say("[red]plain[/red] [-]poststarthook failed")
    assert output.getvalue() == "[red]plain[/red] [-]poststarthook failed\n"


def test_a_plain_output_gets_no_control_characters() -> None:
    output = StringIO()
    with Progress(output).step("a") as step:
        step.waits_for("b")
    assert "\x1b" not in output.getvalue()
