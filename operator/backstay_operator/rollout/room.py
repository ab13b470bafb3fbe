"""Room for the candidate: reckoned before anything is made for it, and made by the active colour where rollout.strategy
is Recreate. Questions only; `making_room` has what the table's rows do."""

from backstay_operator.rollout.capacity import reckoning
from backstay_operator.rollout.capacity.shortage import Shortage
from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.observation import ColourState


def is_made(facts: Facts) -> bool:
    """The attempt's Deployment is there: from now on its pods tell how it fares.

    A pass that was killed may have made it before the attempt stood in the status.
    """
    if facts.attempt is not None:
        made, attempt = facts.candidate, facts.attempt.id
    else:
        made = facts.observation.colours[facts.free_colour] if facts.free_colour is not None else None
        attempt = facts.next_attempt_id
    return made is not None and made.exists and made.attempt == attempt


def asks_for_nodes(facts: Facts) -> bool:
    """This pass decides whether something is made for a candidate, so it must know the nodes."""
    if facts.attempt is not None:
        return not facts.switched and not is_made(facts)
    return facts.something_new_is_asked and facts.free_colour is not None


def shortage(facts: Facts) -> Shortage | None:
    """Why no candidate is made yet. None also where the nodes could not be read: then the scheduler will say so."""
    nodes = facts.observation.nodes
    if nodes is None or nodes.problem or is_made(facts):
        return None
    gives_way = facts.active_colour if facts.recreates else None
    return reckoning.shortage(facts.wanted.recipe, facts.candidate_wanted, nodes.all, gives_way)


def active_is_in_the_way(facts: Facts) -> bool:
    """The active colour must be gone first, and is not."""
    return facts.recreates and facts.active is not None and not facts.active.gone


def candidate_stays_down(facts: Facts, candidate: ColourState) -> bool:
    """Nothing is made for the candidate, or it gets no pods: others have the room, or shall have it."""
    if facts.recreates and facts.paused:
        return True
    return shortage(facts) is not None or (candidate.replicas == 0 and active_is_in_the_way(facts))


def active_makes_way(facts: Facts) -> bool:
    """The active colour goes down for the candidate: only once the attempt stands in the status, and not while there
    would be no room all the same, or a person paused it."""
    return facts.attempt is not None and facts.recreates and not facts.paused and shortage(facts) is None
