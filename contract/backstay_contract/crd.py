"""The CustomResourceDefinition, made from the types of `resource` and `status`.

pydantic's JSON schema is not yet a structural schema: the API server refuses `$ref`, `anyOf` with null,
`additionalProperties: false` beside `properties`, and numeric `exclusiveMinimum`. `structural` turns one into the
other.
"""

from typing import Any

from backstay_contract import names
from backstay_contract.resource import ModelDeploymentSpec
from backstay_contract.status import ModelDeploymentStatus

Schema = dict[str, Any]

_KEPT = (
    "type", "format", "description", "default", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum",
    "minItems", "maxItems", "minProperties", "maxProperties", "required", "x-kubernetes-validations",
    "x-kubernetes-int-or-string",
)  # fmt: skip

PRINTER_COLUMNS = (
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    {"name": "Active", "type": "string", "jsonPath": ".status.active.version"},
    {"name": "Candidate", "type": "string", "jsonPath": ".status.candidate.version"},
    {"name": "Ready", "type": "string", "jsonPath": ".status.ready"},
    {"name": "Reason", "type": "string", "jsonPath": ".status.reason"},
    {"name": "Message", "type": "string", "jsonPath": ".status.message", "priority": 1},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
)

SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


def structural(schema: Schema, definitions: Schema) -> Schema:
    """One JSON schema of pydantic's as a structural schema, references resolved."""
    schema = _resolve(schema, definitions)
    out = {key: schema[key] for key in _KEPT if key in schema}
    if "const" in schema:
        out["enum"] = [schema["const"]]
        out.setdefault("type", _type_of(schema["const"]))
    out |= _bounds(schema)
    if "properties" in schema:
        out["properties"] = {name: structural(field, definitions) for name, field in schema["properties"].items()}
        if "default" in out:
            out["default"] = _without_nulls(out["default"])
    if "prefixItems" not in schema and "items" in schema:
        out["items"] = structural(schema["items"], definitions)
    if isinstance(schema.get("additionalProperties"), dict):
        out |= _map(schema, definitions)
    if "description" in out:
        out["description"] = " ".join(out["description"].split())
    return out


def _bounds(schema: Schema) -> Schema:
    """Exclusive bounds as flags beside the bound, and a rule for a lower bound that is no whole number.

    The API server cuts a bound to a whole number before it compares a whole number with it: 0 would pass `>= 0.2`.
    """
    out: Schema = {}
    for bound, place in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if bound in schema:
            out |= {place: schema[bound], bound: True}
    lower = schema.get("minimum", schema.get("exclusiveMinimum"))
    if lower is not None and lower != int(lower):
        comparison = ">" if "exclusiveMinimum" in schema else ">="
        out["x-kubernetes-validations"] = [
            {"rule": f"self {comparison} {float(lower)}", "message": f"must be {comparison} {lower:g}"}
        ]
    return out


def _without_nulls(value: Any) -> Any:
    """A default as the API server takes it: a field that is null is one that is left out.

    The default stays whole, although the fields have their own: CEL rules are tried on it before those are filled in.
    """
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value


def _map(schema: Schema, definitions: Schema) -> Schema:
    """The values' schema of a map and, where its keys are a closed list, the rule that says so."""
    out: Schema = {"additionalProperties": structural(schema["additionalProperties"], definitions)}
    allowed = _resolve(schema.get("propertyNames", {}), definitions).get("enum")
    if allowed:
        out["x-kubernetes-validations"] = [*schema.get("x-kubernetes-validations", ()), _only_keys(allowed)]
        out["maxProperties"] = len(allowed)
    return out


def _only_keys(allowed: list[str]) -> Schema:
    listed = ", ".join(f"'{name}'" for name in allowed)
    return {
        "rule": f"self.all(key, key in [{listed}])",
        "message": f"unknown key; one of {', '.join(allowed)}",
    }


def _resolve(schema: Schema, definitions: Schema) -> Schema:
    """The schema behind `$ref`, with the siblings of the reference laid over it; `anyOf [X, null]` becomes X."""
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    if options:
        if len(options) != 1:
            raise ValueError(f"a union of {len(options)} types cannot be a structural schema: {schema}")
        outer = {key: value for key, value in schema.items() if key != "anyOf" and not _is_null_default(key, value)}
        return _resolve({**options[0], **outer}, definitions)
    if "$ref" in schema:
        target = definitions[schema["$ref"].rsplit("/", 1)[1]]
        outer = {key: value for key, value in schema.items() if key != "$ref"}
        return _resolve({**target, **outer}, definitions)
    return schema


def _is_null_default(key: str, value: Any) -> bool:
    return key == "default" and value is None


def _type_of(value: Any) -> str:
    return {bool: "boolean", int: "integer", float: "number", str: "string"}[type(value)]


def _root_rules() -> list[Schema]:
    limit = names.MAX_NAME
    return [
        {
            "rule": f"size(self.metadata.name) <= {limit}",
            "message": f"metadata.name: at most {limit} characters, so that the names of its pods fit into 63",
        },
        {
            "rule": "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "message": "metadata.name: lower-case letters, digits and '-', beginning with a letter: it names Services",
        },
    ]


def schema_of(document: type[ModelDeploymentSpec] | type[ModelDeploymentStatus]) -> Schema:
    """The structural schema of the spec or the status."""
    whole = document.model_json_schema(by_alias=True, mode="validation")
    schema = structural(whole, whole.get("$defs", {}))
    return schema if document is ModelDeploymentSpec else _without_rules(schema)


def _without_rules(schema: Schema) -> Schema:
    """The schema without CEL rules. They are for people's fields; only the operator writes the status, which repeats
    parts of the spec in lists, where the API server refuses rules about a field's old value."""
    out = {key: value for key, value in schema.items() if key != "x-kubernetes-validations"}
    if "properties" in out:
        out["properties"] = {name: _without_rules(field) for name, field in out["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in out:
            out[key] = _without_rules(out[key])
    return out


def custom_resource_definition() -> Schema:
    """The whole CustomResourceDefinition object."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names.PLURAL}.{names.GROUP}"},
        "spec": {
            "group": names.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": names.KIND,
                "listKind": f"{names.KIND}List",
                "plural": names.PLURAL,
                "singular": names.SINGULAR,
                "shortNames": [names.SHORT],
                "categories": ["all"],
            },
            "versions": [
                {
                    "name": names.VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}, "scale": dict(SCALE)},
                    "additionalPrinterColumns": [dict(column) for column in PRINTER_COLUMNS],
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "description": "A model to serve, and how its new versions come into service.",
                            "required": ["spec"],
                            "x-kubernetes-validations": _root_rules(),
                            "properties": {
                                "apiVersion": {"type": "string"},
                                "kind": {"type": "string"},
                                "metadata": {"type": "object"},
                                "spec": schema_of(ModelDeploymentSpec),
                                "status": schema_of(ModelDeploymentStatus),
                            },
                        }
                    },
                }
            ],
        },
    }
