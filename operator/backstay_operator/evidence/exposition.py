"""From a pod's /metrics text to samples. Pure."""

from collections.abc import Iterator

from backstay_judge import COUNTED, Sample
from prometheus_client import parser


def samples(text: str, pod: str, timestamp: float) -> tuple[Sample, ...]:
    """The samples of one pod's text, with the label `pod` added; `timestamp` is the Unix time of the request.

    Raises ValueError where the text is no exposition.
    """
    # The text has many series that are not evidence, and parsing is what costs.
    kept = "\n".join(line for line in text.splitlines() if line.startswith(COUNTED)) + "\n"
    return tuple(_samples(kept, pod, timestamp))


def _samples(text: str, pod: str, timestamp: float) -> Iterator[Sample]:
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in COUNTED:
                yield Sample(sample.name, {**sample.labels, "pod": pod}, float(sample.value), timestamp)
