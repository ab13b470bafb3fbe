"""The CRD: pydantic's schema made structural. The real API server's word is in tests/integration/crd."""

import json
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from backstay_contract import crd, names
from backstay_contract.base import Document
from backstay_contract.resource import ModelDeploymentSpec, parse_spec
from backstay_contract.status import ModelDeploymentStatus
from pydantic import Field

Schema = dict[str, Any]


def schema(document: type[Document]) -> Schema:
    whole = document.model_json_schema(by_alias=True)
    return crd.structural(whole, whole.get("$defs", {}))


def nodes(node: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Each schema in a schema, with its path."""
    yield path, node
    for name, field in node.get("properties", {}).items():
        yield from nodes(field, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from nodes(node[key], f"{path}.{key}")


WHOLE = crd.custom_resource_definition()
ROOT: Schema = WHOLE["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
NODES = list(nodes(ROOT))


class TestStructural:
    def test_a_reference_is_replaced_by_what_it_refers_to(self) -> None:
        class Part(Document):
            size: int

        class Whole(Document):
            part: Part
            """The part that matters."""

        assert schema(Whole)["properties"]["part"] == {
            "type": "object",
            "description": "The part that matters.",
            "properties": {"size": {"type": "integer"}},
            "required": ["size"],
        }

    def test_an_optional_field_is_one_that_may_be_left_out(self) -> None:
        class Whole(Document):
            size: Annotated[int, Field(ge=1)] | None = None

        assert schema(Whole) == {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}}

    def test_an_exclusive_bound_becomes_a_bound_and_a_flag(self) -> None:
        class Whole(Document):
            share: Annotated[float, Field(gt=0, lt=1)]

        assert schema(Whole)["properties"]["share"] == {
            "type": "number",
            "minimum": 0,
            "exclusiveMinimum": True,
            "maximum": 1,
            "exclusiveMaximum": True,
        }

    def test_a_lower_bound_that_is_no_whole_number_gets_a_rule(self) -> None:
        class Whole(Document):
            pause: Annotated[float, Field(ge=0.2)]

        assert schema(Whole)["properties"]["pause"]["x-kubernetes-validations"] == [
            {"rule": "self >= 0.2", "message": "must be >= 0.2"}
        ]

    def test_one_possible_value_is_an_enumeration_of_one(self) -> None:
        class Whole(Document):
            version: Literal[1] = 1

        assert schema(Whole)["properties"]["version"] == {"type": "integer", "enum": [1], "default": 1}

    def test_a_map_with_a_closed_list_of_keys_gets_a_rule_that_names_them(self) -> None:
        class Whole(Document):
            limits: dict[Literal["cpu", "memory"], str]

        assert schema(Whole)["properties"]["limits"] == {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "maxProperties": 2,
            "x-kubernetes-validations": [
                {
                    "rule": "self.all(key, key in ['cpu', 'memory'])",
                    "message": "unknown key; one of cpu, memory",
                }
            ],
        }

    def test_a_default_has_no_nulls(self) -> None:
        class Part(Document):
            size: int | None = None
            count: int = 3

        class Whole(Document):
            part: Part = Part()

        assert schema(Whole)["properties"]["part"]["default"] == {"count": 3}

    def test_an_enumeration_is_its_values(self) -> None:
        class Way(StrEnum):
            UP = "Up"
            DOWN = "Down"

        class Whole(Document):
            way: Way = Way.UP

        found = schema(Whole)["properties"]["way"]
        assert (found["enum"], found["default"], found["type"]) == (["Up", "Down"], "Up", "string")

    def test_a_list_keeps_the_bound_of_its_length(self) -> None:
        class Whole(Document):
            parts: Annotated[tuple[int, ...], Field(max_length=4)] = ()

        assert schema(Whole)["properties"]["parts"] == {
            "type": "array",
            "items": {"type": "integer"},
            "maxItems": 4,
            "default": [],
        }

    def test_a_description_is_one_line(self) -> None:
        class Whole(Document):
            """First line
            and second."""

        assert schema(Whole)["description"] == "First line and second."

    def test_a_union_of_two_types_cannot_be_told_to_the_api_server(self) -> None:
        class Whole(Document):
            either: int | str

        with pytest.raises(ValueError, match="a union of 2 types cannot be a structural schema"):
            schema(Whole)


class TestWhole:
    def test_every_node_has_a_type_or_is_int_or_string(self) -> None:
        assert [path for path, node in NODES if "type" not in node and not node.get("x-kubernetes-int-or-string")] == []

    @pytest.mark.parametrize("word", ["$ref", "$defs", "anyOf", "oneOf", "allOf", "title", "const", "propertyNames"])
    def test_no_word_is_left_that_the_api_server_refuses(self, word: str) -> None:
        assert [path for path, node in NODES if word in node] == []

    def test_additional_properties_never_stand_beside_properties(self) -> None:
        assert [path for path, node in NODES if "properties" in node and "additionalProperties" in node] == []

    def test_exclusive_bounds_are_flags(self) -> None:
        flags = [node[key] for _, node in NODES for key in ("exclusiveMinimum", "exclusiveMaximum") if key in node]

        assert flags
        assert set(flags) == {True}

    def test_strings_that_a_rule_reads_are_bounded_or_the_rule_would_cost_too_much(self) -> None:
        model = ROOT["properties"]["spec"]["properties"]["model"]["properties"]

        assert all(model[name]["maxLength"] <= 1024 for name in ("name", "uri"))
        assert model["storage"]["properties"]["endpoint"]["maxLength"] <= 253

    def test_lists_with_rules_in_them_are_bounded(self) -> None:
        unbounded = [
            path
            for path, node in NODES
            if "items" in node
            and any("x-kubernetes-validations" in inner for _, inner in nodes(node["items"]))
            and "maxItems" not in node
        ]

        assert unbounded == []

    def test_each_rule_says_which_field_it_is_about_or_stands_at_that_field(self) -> None:
        for path, node in NODES:
            for rule in node.get("x-kubernetes-validations", ()):
                at_the_field = "self." not in rule["rule"] or "self.all(" in rule["rule"]
                assert at_the_field or ": " in rule["message"], (path, rule)

    def test_client_side_apply_can_store_it_in_an_annotation(self) -> None:
        # Annotations hold 256 KiB together; the rest is left to others.
        assert len(json.dumps(WHOLE)) < 200 * 1024

    def test_every_status_field_may_be_left_out(self) -> None:
        assert "required" not in ROOT["properties"]["status"]

    def test_the_status_has_no_rules_since_only_the_operator_writes_it(self) -> None:
        of_the_status = [node for path, node in NODES if path.startswith(".status")]
        assert of_the_status
        assert not [node for node in of_the_status if "x-kubernetes-validations" in node]

    def test_the_status_and_the_scale_are_subresources(self) -> None:
        assert WHOLE["spec"]["versions"][0]["subresources"].keys() == {"status", "scale"}

    def test_the_scale_reads_fields_that_exist_and_have_the_types_that_kubernetes_wants(self) -> None:
        scale = WHOLE["spec"]["versions"][0]["subresources"]["scale"]
        found = {}
        for name, path in scale.items():
            node = ROOT
            for part in path.strip(".").split("."):
                node = node["properties"][part]
            found[name] = node["type"]
        assert found == {
            "specReplicasPath": "integer",
            "statusReplicasPath": "integer",
            "labelSelectorPath": "string",
        }

    def test_the_names_are_the_contracts(self) -> None:
        assert WHOLE["metadata"]["name"] == f"{names.PLURAL}.{names.GROUP}"
        assert WHOLE["spec"]["names"]["shortNames"] == [names.SHORT]

    def test_printer_columns_read_fields_that_exist(self) -> None:
        for column in WHOLE["spec"]["versions"][0]["additionalPrinterColumns"]:
            node = ROOT
            for part in column["jsonPath"].strip(".").split("."):
                if part == "metadata":
                    break
                node = node["properties"][part]

    def test_the_defaults_of_the_schema_are_those_that_python_fills_in(self) -> None:
        model = {
            "name": "m",
            "version": "1",
            "uri": "s3://models/m",
            "sha256": "0" * 64,
            "storage": {"endpoint": "http://minio:9000"},
        }
        filled = with_defaults(crd.schema_of(ModelDeploymentSpec), {"model": model})

        assert parse_spec(filled) == parse_spec({"model": model})
        assert parse_spec(filled).to_json() == {**filled, "model": parse_spec(filled).model.to_json()}

    def test_making_it_twice_gives_the_same(self) -> None:
        assert crd.custom_resource_definition() == WHOLE
        assert crd.schema_of(ModelDeploymentStatus) == crd.schema_of(ModelDeploymentStatus)


def with_defaults(node: Schema, value: Any) -> Any:
    """What the API server makes of a value: defaults filled in, at every depth."""
    if "properties" not in node or not isinstance(value, dict):
        return value
    filled = dict(value)
    for name, field in node["properties"].items():
        if name not in filled and "default" in field:
            filled[name] = json.loads(json.dumps(field["default"]))
        if name in filled:
            filled[name] = with_defaults(field, filled[name])
    return filled
