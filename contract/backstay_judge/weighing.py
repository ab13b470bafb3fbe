"""What the evidence of one metric weighs: the e-values that decide, and whose evidence it is."""

import math
from dataclasses import dataclass

from backstay_contract.evidence import MetricEvidence, PodCounter
from backstay_contract.metric import pass_fraction

from backstay_judge import betting, sequential
from backstay_judge.dispersion import dispersion
from backstay_judge.settings import Settings


@dataclass(frozen=True)
class Weight:
    """The e-values of a metric's evidence, as natural logs, beside what each decision needs."""

    beyond: float
    within: float
    breach_at: float
    pass_at: float
    dispersion: float
    overdispersed: bool

    @property
    def reaches_breach(self) -> bool:
        return self.beyond >= self.breach_at

    @property
    def reaches_pass(self) -> bool:
        return self.within >= self.pass_at


def weigh(evidence: MetricEvidence, judged_metrics: int, settings: Settings) -> Weight:
    """The weight of the evidence, with alpha split over the judged metrics.

    Where the windows differ more than independent requests would (dispersion above the limit), a request counts for
    less than one. Then only the bet on window fractions, which does not care how a window's requests depend on each
    other, can reach Breach; and Pass needs as many times the evidence as the dispersion says (the e-value's log is
    divided by it: a discount, where an exact bet would need hundreds of windows). So the odds of a false Pass are
    promised for independent requests only; when load comes in rare storms, nothing but a longer soak can see one.
    """
    windows = evidence.windows
    phi = dispersion(windows.closed, evidence.n - windows.open_n, evidence.k - windows.open_k, windows.square_sum)
    overdispersed = phi > settings.dispersion_limit
    p0 = evidence.allowed_fraction
    independent = sequential.log_e_beyond(evidence.n, evidence.k, p0)
    within = sequential.log_e_within(evidence.n, evidence.k_at_most, pass_fraction(evidence.metric, p0))
    return Weight(
        beyond=betting.log_e(windows.log_wealth) if overdispersed else independent,
        within=within / phi if overdispersed else within,
        breach_at=math.log(judged_metrics / settings.alpha),
        pass_at=-math.log(settings.alpha_pass),
        dispersion=phi,
        overdispersed=overdispersed,
    )


def pods_with_requests(evidence: MetricEvidence) -> list[PodCounter]:
    """The pods that the requests came from."""
    return [pod for pod in evidence.pods if pod.n > 0]


def lone_culprit(evidence: MetricEvidence, settings: Settings) -> PodCounter | None:
    """The pod without which the others do not show the breach; None if they show it without any one of them."""
    need = -math.log(settings.alpha_rest)
    weights = [
        (sequential.log_e_beyond(evidence.n - pod.n, evidence.k - pod.k, evidence.allowed_fraction), pod)
        for pod in pods_with_requests(evidence)
    ]
    rest, pod = min(weights, key=lambda one: one[0])
    return pod if rest < need else None
