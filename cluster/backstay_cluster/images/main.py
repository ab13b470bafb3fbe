"""`python -m backstay_cluster images`: build what is missing, and say what there is."""

import argparse
import json
import sys
from collections.abc import Sequence

from backstay_cluster.errors import ClusterError
from backstay_cluster.images import layout, store
from backstay_cluster.progress import Progress

_DESCRIPTION = """\
Build the images of cluster and project that are not in the cache yet, and print their names.

An image's tag is a hash of all that decides its content (Dockerfile, lock, sources, base), so a second call builds
nothing, and a change of code builds one small layer. The first build of all takes about four minutes, most of it for
the runtime's 5 GB of torch."""
_EPILOG = """\
examples:
  python -m backstay_cluster images                          all of them
  python -m backstay_cluster images --only operator,runtime  the project's two
  python -m backstay_cluster images -o json | jq -r .runtime.reference
  python -m backstay_cluster images --prune                  drop what an older checkout left"""


def parser() -> argparse.ArgumentParser:
    """The verb's options."""
    made = argparse.ArgumentParser(
        "python -m backstay_cluster images",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = ", ".join(store.EXPORTED)
    made.add_argument("--only", metavar="NAMES", help=f"comma-separated: {names}; the default is all")
    made.add_argument("--rebuild", action="store_true", help="build anew what is in the cache, from a fresh base")
    made.add_argument("--prune", action="store_true", help="then remove images of other contents and their layers")
    made.add_argument("-o", "--output", choices=("text", "json"), default="text", help="form of the result")
    return made


def main(argv: Sequence[str]) -> int:
    """Run the verb with its arguments; returns the exit code: 0 done, 1 failed."""
    options = parser().parse_args(argv)
    names = options.only.split(",") if options.only else list(store.EXPORTED)
    progress = Progress()
    try:
        folders = store.ensure(names, progress, rebuild=options.rebuild)
        if options.prune:
            store.prune(progress)
    except ClusterError as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    images = {name: layout.read(folder, store.default().blobs) for name, folder in zip(names, folders, strict=True)}
    if options.output == "json":
        described = {
            name: {"reference": image.reference, "digest": image.manifest.digest, "bytes": image.size}
            for name, image in images.items()
        }
        print(json.dumps(described, indent=2))
    else:
        for name, image in images.items():
            print(f"{name:12} {image.reference:48} {image.size / 1e6:7.0f} MB")
    return 0
