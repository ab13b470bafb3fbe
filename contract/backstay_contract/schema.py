"""What the spec's types share: text and quantities as Kubernetes writes them, and CEL rules."""

from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, StringConstraints, WithJsonSchema

QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$"


def _whole_number_as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Quantity = Annotated[
    str,
    StringConstraints(pattern=QUANTITY, max_length=32),
    BeforeValidator(_whole_number_as_text),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "pattern": QUANTITY, "maxLength": 32}),
]
"""An amount as pods write it: `2`, `500m`, `3Gi`; a whole number needs no quotes."""
SecretName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$", max_length=253)]
Text = Annotated[str, StringConstraints(max_length=256)]


def rules(*rows: tuple[str, str]) -> ConfigDict:
    """CEL rules of a type: (rule, message) pairs that the API server checks at apply."""
    return ConfigDict(
        json_schema_extra={"x-kubernetes-validations": [{"rule": rule, "message": said} for rule, said in rows]}
    )
