"""The judge: counts in, verdict out. Pure: time is an argument, nothing is read or written.

One look goes `read_pods` (or `read_pod`) -> `add` -> `judge`; `begin` is called once, at the flip.

Sources: Ville 1939 (his inequality bounds the odds at every look at once); Wald 1945; Wilson 1927; Howard, Ramdas,
McAuliffe, Sekhon, arXiv 1810.08240; Waudby-Smith and Ramdas, arXiv 2010.09686; Lindon, Sanden, Shirikian,
arXiv 2205.14762.
"""

from backstay_judge.accumulate import add, begin
from backstay_judge.coverage import Coverage
from backstay_judge.dispersion import dispersion
from backstay_judge.perplexity import Difference, EvaluatedItem, Round, difference, judge_perplexity, round_of
from backstay_judge.readings import COUNTED, Counts, PodReading, read_pod, read_pods
from backstay_judge.refusal import ReadingError, Refusal, RefusalReason
from backstay_judge.rounds import ROUND_SERIES, PodRound, judge_rounds, read_rounds
from backstay_judge.samples import UP, Sample
from backstay_judge.sequential import clean_requests_for_pass, log_e_beyond, log_e_within
from backstay_judge.settings import Limit, Settings, limit_on_requests, limits_on_requests
from backstay_judge.verdict import judge, overall
from backstay_judge.wilson import wilson

__all__ = [
    "COUNTED",
    "ROUND_SERIES",
    "UP",
    "Counts",
    "Coverage",
    "Difference",
    "EvaluatedItem",
    "Limit",
    "PodReading",
    "PodRound",
    "ReadingError",
    "Refusal",
    "RefusalReason",
    "Round",
    "Sample",
    "Settings",
    "add",
    "begin",
    "clean_requests_for_pass",
    "difference",
    "dispersion",
    "judge",
    "judge_perplexity",
    "judge_rounds",
    "limit_on_requests",
    "limits_on_requests",
    "log_e_beyond",
    "log_e_within",
    "overall",
    "read_pod",
    "read_pods",
    "read_rounds",
    "round_of",
    "wilson",
]
