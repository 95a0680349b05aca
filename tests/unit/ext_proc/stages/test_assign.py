"""Which version answers."""

from __future__ import annotations

from dataclasses import replace

from ext_proc.contract.snapshot import Consumer, Model, PolicyLayer, Rollout, Version
from ext_proc.stages.assign import Assign
from tests.unit.ext_proc.exchanges import exchange, snapshot

TWO = Model("m", (Version("old", "b", "m-1", 95), Version("new", "b", "m-2", 5)))


async def test_a_caller_stays_on_its_version() -> None:
    """By Consumer, else by session; with neither each request is drawn anew."""
    policy = snapshot(models={"m": TWO})
    draws = iter([0.1, 0.99])
    stage = Assign(lambda: next(draws))
    names = []
    for _ in range(2):
        opened = exchange(policy)
        opened.model = TWO
        await stage.on_request(opened)
        names.append(opened.version.name if opened.version else None)
    assert names == ["old", "new"]
    sticky = set()
    for _ in range(20):
        opened = exchange(policy, headers={"x-outrigger-session": "s"})
        opened.model, opened.consumer = TWO, Consumer("team", "t")
        await stage.on_request(opened)
        sticky.add(opened.version)
        assert opened.backend is policy.backends["b"]
    assert len(sticky) == 1


async def test_a_model_with_fallbacks_has_candidates() -> None:
    """The assigned version comes first, then one of each fallback; taking one passes over those before."""
    spare = Model("spare", (Version("v", "b", "spare-1"),))
    model = replace(TWO, fallbacks=("spare",))
    opened = exchange(snapshot(models={"m": model, "spare": spare}))
    opened.model = model
    await Assign(lambda: 0.0).on_request(opened)
    assert [(one.model, one.version) for one in opened.candidates] == [
        (model, TWO.versions[0]),
        (spare, spare.versions[0]),
    ]
    opened.take(opened.candidates[1])
    assert (opened.model, opened.version, len(opened.candidates)) == (spare, spare.versions[0], 1)


async def test_a_release_is_told() -> None:
    """So that its versions can be compared, whoever answers in the end."""
    model = replace(TWO, releases=(Rollout("r", "old", "new", 1.0, "salt"),))
    opened = exchange(snapshot(models={"m": model}))
    opened.model = model
    await Assign(lambda: 0.5).on_request(opened)
    assert (opened.version_name, opened.release, opened.assigned) == ("new", "r", "new")


async def test_an_answer_is_read_for_a_release_that_counts_refusals() -> None:
    """For its own callers only."""
    for reads, tiers, wanted in ((True, (), True), (True, ("gold",), False), (False, (), False)):
        release = Rollout("r", "old", "new", 1.0, "salt", tiers=tiers, reads_answers=reads)
        model = replace(TWO, releases=(release,))
        opened = exchange(snapshot(models={"m": model}))
        opened.model, opened.wants_body = model, False
        opened.request = replace(opened.parsed, stream=True)
        await Assign(lambda: 0.5).on_request(opened)
        assert (opened.wants_body, opened.wants_stream) == (wanted, wanted)


async def test_whoever_is_taken_in_its_place_passes_it_over() -> None:
    """Taking the assigned one, or learning that it answered, passes over nobody."""
    spare = Model("spare", (Version("v", "b", "spare-1"),))
    model = replace(TWO, fallbacks=("spare",))
    seen = []
    for number in (0, 1):
        opened = exchange(snapshot(models={"m": model, "spare": spare}))
        opened.model = model
        await Assign(lambda: 0.0).on_request(opened)
        opened.take(opened.candidates[number])
        told = exchange(snapshot(models={"m": model, "spare": spare}))
        told.model = model
        await Assign(lambda: 0.0).on_request(told)
        told.stand_in(number)
        seen.append((opened.passed_over, opened.stood_in, told.passed_over, told.stood_in))
    assert seen == [(False, False, False, False), (True, False, True, True)]


async def test_a_version_with_settings_of_its_own_beats_every_policy() -> None:
    """From the version on that setting holds; other versions keep the Policy's."""
    new = replace(TWO.versions[1], settings={"batch.max_size": 20})
    model = replace(TWO, versions=(TWO.versions[0], new))
    layer = PolicyLayer("p", settings={"batch.max_size": 10, "batch.mode": "native"})
    policy = snapshot(models={"m": model}, policies=(layer,))
    sizes = []
    for draw in (0.1, 0.99):
        opened = exchange(policy)
        opened.model, opened.policy = model, opened.loaded.policy("m", "")
        await Assign(lambda: draw).on_request(opened)  # noqa: B023
        sizes.append((opened.policy.batch.max_size, opened.policy.batch.mode))
    assert sizes == [(10, "native"), (20, "native")]
