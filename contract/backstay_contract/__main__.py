"""`python -m backstay_contract VERB`: prints the files that are generated from the contract."""

import argparse
import sys
from collections.abc import Callable

from backstay_contract import crd, reference, yaml_text

VERBS: dict[str, tuple[str, Callable[[], str]]] = {
    "crd": ("the CustomResourceDefinition, as YAML", lambda: yaml_text.dump(crd.custom_resource_definition())),
    "reasons": ("the reference page of reasons, as Markdown", reference.reasons),
    "fields": ("the reference page of the resource's fields, as Markdown", reference.fields),
}


def main(arguments: list[str]) -> int:
    """Print one generated file. Returns the exit code; a wrong verb ends with 2 and the usage."""
    parser = argparse.ArgumentParser(
        prog="python -m backstay_contract",
        description="Print a file that is generated from the contract.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="verbs:\n" + "\n".join(f"  {verb:8} {help_text}" for verb, (help_text, _) in VERBS.items()),
    )
    parser.add_argument("verb", choices=VERBS, metavar="VERB", help="what to print; see below")
    verb: str = parser.parse_args(arguments).verb
    sys.stdout.write(VERBS[verb][1]())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
