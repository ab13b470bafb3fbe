"""`make demo`: the whole story on a real cluster, with real models; `make demo-clean` removes it."""

import argparse
import os
import sys
import time
from pathlib import Path

from backstay_cluster.cluster import DEFAULT_NAME, cache_root
from backstay_cluster.errors import ClusterError
from backstay_cluster.progress import Progress

from tests.e2e.story import chapters, clean, diagnosis, places, timeline
from tests.e2e.story.claims import claims
from tests.e2e.story.kube import KubectlError
from tests.e2e.story.place import DemoError

FAILED, PROMISE_BROKEN = 1, 3


def main() -> int:
    """Returns the exit code: 0 all that is promised held, 1 the story could not be told, 3 a promise did not hold."""
    options = _options()
    progress = Progress()
    try:
        return _clean(options.name, progress) if options.clean else _tell(options.name, options.output, progress)
    except (DemoError, ClusterError, KubectlError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("demo: interrupted; `make demo-clean` removes what is there", file=sys.stderr)
        return 130


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("make demo", description=__doc__)
    parser.add_argument("--clean", action="store_true", help="remove what the demo made")
    parser.add_argument("--name", default=DEFAULT_NAME, help=f"the node's name, default {DEFAULT_NAME!r}")
    parser.add_argument("--output", type=Path, default=cache_root() / "demo", help="folder for what was seen")
    return parser.parse_args()


def _tell(name: str, folder: Path, progress: Progress) -> int:
    began = time.monotonic()
    place = places.find(name, os.environ, progress)
    clean.resources(place.kube, progress)
    with chapters.Story(place, progress, folder) as story:
        story.seconds.append(("a cluster with images, storage and monitoring", time.monotonic() - began))
        try:
            record = chapters.tell(story)
        except (DemoError, KubectlError):
            progress.say(f"what could be seen of it: {diagnosis.write(place.kube, folder / 'diagnosis.txt')}")
            raise
    found = claims(record)
    report = timeline.text(record, found, places.kubectl(place))
    (folder / "timeline.txt").write_text(report)
    print(report)
    print(f"Kept in {folder}: the requests one by one, `kubectl get mdep` at each stage, and this report.")
    return 0 if all(claim.holds for claim in found) else PROMISE_BROKEN


def _clean(name: str, progress: Progress) -> int:
    places.clean(name, os.environ, progress)
    return 0


if __name__ == "__main__":
    sys.exit(main())
