"""What the storage answers."""

from backstay_contract.termination import GaveUp

from ..place import WEIGHTS, Place
from ..proxy import Action
from .registry import CELLS, Cell, again, refused

ANSWERS = {
    "403": (403, GaveUp.CREDENTIALS_REJECTED, 6),
    "404": (404, GaveUp.MODEL_NOT_FOUND, 5),
    "5xx": (503, GaveUp.STORAGE_UNREACHABLE, 7),
}


def _answered_to_a_pull(status: int, reason: GaveUp) -> Cell:
    def play(place: Place) -> str:
        digest, pod = place.publish(), place.pod()
        place.rule(lambda method, path, headers: Action(status=status) if path.endswith(WEIGHTS) else None)
        outcome = refused(pod.pull(digest), reason)
        assert not place.whole(pod, digest)
        again(place, pod, digest)
        return outcome

    return play


def _answered_to_a_push(status: int, code: int) -> Cell:
    def play(place: Place) -> str:
        place.rule(lambda method, path, headers: Action(status=status) if method in ("PUT", "POST") else None)
        ended = place.push()
        assert ended.code == code, ended
        assert place.published() is None
        place.calm()
        assert place.push().code == 0
        return f"exit code {code}, nothing visible; the next push goes on"

    return play


def _answered_beside_a_cache(status: int) -> Cell:
    def play(place: Place) -> str:
        digest = place.publish()
        assert place.pod("a").pull(digest).code == 0
        place.rule(lambda method, path, headers: Action(status=status))
        assert place.fetched(place.pod("b").pull(digest)) == 0
        return "not asked: 0 bytes, the model is there"

    return play


for _fault, (_status, _reason, _code) in ANSWERS.items():
    CELLS[_fault, "push"] = _answered_to_a_push(_status, _code)
    CELLS[_fault, "pull"] = _answered_to_a_pull(_status, _reason)
    CELLS[_fault, "cache"] = _answered_beside_a_cache(_status)
