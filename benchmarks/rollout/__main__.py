"""make bench-rollout: flip latency on a real API server, and flips under load on a real node."""

import argparse
import sys

from benchmarks.rollout import latency, node


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rollout", description=__doc__)
    parser.add_argument("--part", choices=("latency", "flips", "streams"), action="append", help="only this part")
    parser.add_argument("--ways-back", type=int, default=20, help="measured ways back for each interval (default: 20)")
    parser.add_argument("--flips", type=int, default=50, help="flips on the node (default: 50)")
    parser.add_argument(
        "--interval",
        type=float,
        action="append",
        help="seconds between two looks; may be given again (default: 2, 0.5)",
    )
    given = parser.parse_args()
    parts = given.part or ["latency", "flips", "streams"]
    if "latency" in parts:
        for interval in given.interval or (2.0, 0.5):
            measured = list(latency.measure(given.ways_back, interval))
            print(latency.summary(measured, interval), flush=True)  # noqa: T201
    if not {"flips", "streams"} & set(parts):
        return 0
    return 0 if node.main(given.flips if "flips" in parts else 0, streams="streams" in parts) else 1


if __name__ == "__main__":
    sys.exit(main())
