"""Scrapes of pods over a time: what both sources give, and what of it a look at one moment sees. Pure."""

import bisect
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from backstay_contract.evidence import EvidenceSource
from backstay_judge import COUNTED, UP, Sample
from prometheus_client import parser

GONE_SECONDS = 30.0
"""A pod that was not scraped for so long is no pod of the time any more; the operator asks Prometheus as far back."""


@dataclass(frozen=True, slots=True)
class Scrape:
    """One pod at one moment: its samples, or why there are none."""

    at: float
    """Unix seconds."""
    pod: str
    samples: tuple[Sample, ...] = ()
    problem: str = ""


@dataclass
class Scrapes:
    """Scrapes of several pods, each pod's in the order of time."""

    by_pod: dict[str, list[Scrape]] = field(default_factory=dict)
    source: EvidenceSource = EvidenceSource.PODS

    @classmethod
    def of(cls, found: Iterable[Scrape], source: EvidenceSource = EvidenceSource.PODS) -> "Scrapes":
        """Sorted by pod and time."""
        by_pod: dict[str, list[Scrape]] = defaultdict(list)
        for scrape in sorted(found, key=lambda one: one.at):
            by_pod[scrape.pod].append(scrape)
        return cls(dict(by_pod), source)

    @property
    def begin(self) -> float:
        """When the first scrape was made; raises ValueError without any."""
        return min(scrapes[0].at for scrapes in self.by_pod.values())

    @property
    def end(self) -> float:
        """When the last scrape was made; raises ValueError without any."""
        return max(scrapes[-1].at for scrapes in self.by_pod.values())

    def digests(self) -> set[str]:
        """The digests that the series are labelled with."""
        return {
            sample.labels["digest"]
            for scrapes in self.by_pod.values()
            for scrape in scrapes
            for sample in scrape.samples
            if sample.labels.get("digest")
        }

    def at(self, moment: float) -> tuple[Scrape, ...]:
        """The last scrape of each pod that was there at the moment."""
        found = []
        for scrapes in self.by_pod.values():
            index = bisect.bisect_right(scrapes, moment, key=lambda one: one.at)
            if index and moment - scrapes[index - 1].at <= GONE_SECONDS:
                found.append(scrapes[index - 1])
        return tuple(sorted(found, key=lambda one: one.pod))


def parse(text: str, pod: str, at: float) -> tuple[Sample, ...]:
    """The samples in a pod's /metrics text, labelled with its name. Raises ValueError where it is no exposition."""
    kept = "\n".join(line for line in text.splitlines() if line.startswith(COUNTED)) + "\n"
    return tuple(
        Sample(sample.name, {**sample.labels, "pod": pod}, float(sample.value), at)
        for family in parser.text_string_to_metric_families(kept)
        for sample in family.samples
        if sample.name in COUNTED
    )


def from_series(points: Iterable[tuple[dict[str, str], Sequence[tuple[float, float]]]]) -> Scrapes:
    """Scrapes from Prometheus' series: labels (with `__name__` and `pod`) and raw points (time, value).

    All series of a pod that were scraped together have the same time.
    """
    found: dict[tuple[str, float], list[Sample]] = defaultdict(list)
    for labels, values in points:
        named = dict(labels)
        name, pod = named.pop("__name__", ""), named.get("pod", "")
        if pod and name in (*COUNTED, UP):
            for at, value in values:
                found[pod, at].append(Sample(name, named, value, at))
    scrapes = (Scrape(at, pod, tuple(samples)) for (pod, at), samples in found.items())
    return Scrapes.of(scrapes, EvidenceSource.PROMETHEUS)
