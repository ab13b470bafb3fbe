"""What it takes to build a revision again is remembered for as long as the revision may be wanted again."""

from backstay_contract.resource import ModelDeploymentSpec
from backstay_contract.status import Colour, HistoryEntry, Phase, Recipe
from backstay_operator.rollout import revision
from hypothesis import given
from hypothesis import strategies as st

from .world import START, World, digest, serving, spec


def specs() -> st.SearchStrategy[ModelDeploymentSpec]:
    return st.builds(
        lambda letter, seqs, gpus: spec(
            letter,
            serving={"maxNumSeqs": seqs},
            hardwareProfile={"gpu": "NVIDIA-L4", "count": gpus} if gpus else {},
        ),
        st.sampled_from("abc"),
        st.integers(1, 64),
        st.integers(0, 4),
    )


@given(specs(), st.sampled_from(["runtime:1", "runtime:2"]), specs())
def test_a_recipe_builds_the_same_revision_whatever_the_spec_has_become(
    before: ModelDeploymentSpec, image: str, now: ModelDeploymentSpec
) -> None:
    wanted = revision.of_spec(before, image, ())
    stored = Recipe.model_validate(wanted.recipe.to_json())
    assert revision.revision_of(revision.Wanted("x", stored).over(now), image) == wanted.revision
    assert (wanted.digest, wanted.version, wanted.image) == (before.model.sha256, before.model.version, image)


def entry(letter: str, recipe: Recipe | None) -> HistoryEntry:
    return HistoryEntry(
        revision=letter * 12,
        digest=digest(letter),
        version="1",
        image="runtime:1",
        verified=True,
        reason="Verified",
        at=START,
        recipe=recipe,
    )


def test_a_revision_of_the_history_keeps_the_name_it_served_under() -> None:
    recipe = revision.recipe_of(spec("a"), "runtime:1")
    found = revision.of_history([entry("a", recipe), entry("b", None)], "a" * 12)
    assert found == revision.Wanted("a" * 12, recipe)


def test_a_revision_that_an_older_version_recorded_without_recipe_cannot_be_built() -> None:
    assert revision.of_history([entry("b", None)], "b" * 12) is None
    assert revision.of_history([], "b" * 12) is None


def test_the_history_remembers_what_each_revision_was_built_from() -> None:
    world = serving("a")
    world.ask("b", serving={"maxNumSeqs": 3})
    world.run(40)
    first, second = world.status.history
    assert first.recipe is not None
    assert second.recipe is not None
    assert first.recipe.serving.image == "runtime:1"
    assert (second.recipe.model, second.recipe.serving.max_num_seqs) == (world.spec.model, 3)


def rejected() -> World:
    """Blue serves a; the spec asks for b, which was rejected."""
    world = serving("a")
    world.model("b").slow = 0.5
    world.ask("b")
    world.until(Phase.ROLLING_BACK)
    return world.run(40)


def test_a_deleted_active_deployment_is_built_again_while_the_spec_asks_for_a_rejected_digest() -> None:
    world = rejected()
    before = world.deployments.pop(Colour.BLUE)
    world.run(5)
    built = world.deployments[Colour.BLUE]
    assert (built.wanted, built.source) == (before.wanted, before.source)
    assert world.ready_behind_service[-1] == 1
    assert (world.live_digest(), world.status.attempts) == (digest("a"), 2)


def test_a_deployment_deleted_in_its_soak_is_built_again_where_nothing_can_be_gone_back_to() -> None:
    world = World().until(Phase.SOAKING)
    before = world.deployments.pop(Colour.BLUE)
    world.run(5)
    assert world.deployments[Colour.BLUE].wanted == before.wanted
    assert world.ready_behind_service[-1] == 1


def moved(world: World, endpoint: str) -> None:
    """The spec names another address of the same storage."""
    model = world.spec.model
    world.spec = world.spec.with_(model=model.with_(storage=model.storage.with_(endpoint=endpoint)))


def remembered(world: World) -> list[str]:
    recipes = [entry.recipe for entry in world.status.history]
    return [recipe.model.storage.endpoint for recipe in recipes if recipe is not None]


def test_an_address_that_moves_is_remembered_for_what_serves_with_one_write() -> None:
    world = serving("a")
    moved(world, "http://minio.other.svc:9000")
    before, pods = world.writes, dict(world.deployments)
    world.run(20)
    assert (remembered(world), world.writes, world.deployments) == (["http://minio.other.svc:9000"], before + 1, pods)


def test_an_address_that_moves_in_the_attempt_goes_into_the_history() -> None:
    world = serving("a")
    world.ask("b")
    world.until(Phase.SOAKING)
    moved(world, "http://minio.other.svc:9000")
    world.run(30)
    assert remembered(world) == ["http://minio.minio.svc:9000", "http://minio.other.svc:9000"]


def test_an_entry_of_an_older_version_gets_its_recipe_while_its_revision_serves() -> None:
    world = serving("a")
    world.status = world.status.with_(history=tuple(h.with_(recipe=None, limits=()) for h in world.status.history))
    world.run(60)
    assert remembered(world) == ["http://minio.minio.svc:9000"]
    assert world.watch is not None
