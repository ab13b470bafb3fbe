"""What every shared type has in common: frozen, camelCase on the wire, unknown fields refused."""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Document(BaseModel):
    """A value that travels as JSON. Fields are snake_case in Python and camelCase on the wire."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        allow_inf_nan=False,
    )

    def to_json(self) -> dict[str, Any]:
        """The wire form: camelCase, without the fields that are None."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def with_(self, **changes: Any) -> Self:
        """A copy with some fields changed; the new values are validated."""
        unknown = changes.keys() - type(self).model_fields.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no field {sorted(unknown)[0]}")
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self).model_validate({**values, **changes})
