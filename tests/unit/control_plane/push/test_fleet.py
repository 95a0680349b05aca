"""The fleet: who is given which revision, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from control_plane.push.policy import Policy
from control_plane.push.sidecars import WAITING_QUESTIONS, Identity, Told
from control_plane.push.views import EnvoyState
from ext_proc.contract import push_pb2
from ext_proc.contract.snapshot import Snapshot, decode
from ext_proc.contract.uses import Use
from tests.unit.control_plane.push.scenes import NOON, Actor, Scene, policy


@pytest.fixture
def scene() -> Scene:
    """Return a fleet without sidecars and without a policy."""
    return Scene()


def test_before_the_first_policy_nothing_is_sent(scene: Scene) -> None:
    """A sidecar that is early waits."""
    actor = scene.actor("a")
    assert actor.receive() is None
    scene.fleet.publish(policy(1))
    assert actor.woken
    assert actor.follow() == 1


def test_who_connects_is_given_what_is_in_force(scene: Scene) -> None:
    """Whole, for its workload, and shown so once it has acknowledged."""
    scene.publish(policy(1, of={"shop": "for-shop"}))
    actor = scene.actor("a", "shop", build="1.0", labels={"zone": "z"})
    message = actor.receive()
    assert message is not None
    assert decode(message.content).backends["b"].url.endswith("for-shop")
    assert (actor.view.pushed, actor.view.acknowledged, actor.view.in_force) == (message.version, "", False)
    actor.ack()
    view = actor.view
    assert (view.acknowledged, view.in_force, view.serving, view.nack) == (message.version, True, True, None)
    assert (view.workload, view.build, view.labels, view.connected_at) == ("shop", "1.0", {"zone": "z"}, NOON)
    assert actor.receive() is None


def test_a_change_goes_to_a_few_first_and_then_to_all(scene: Scene) -> None:
    """The rest is woken when the wave has acknowledged; new connections hold the one before meanwhile."""
    scene.publish(policy(1, "one"))
    actors = [scene.actor(f"s{index}") for index in range(5)]
    for actor in actors:
        actor.follow()
    scene.fleet.publish(policy(2, "two"))
    first = [actor for actor in actors if actor.revision() is not None]
    assert len(first) == 1
    late = scene.actor("late")
    assert late.follow() == 1
    first[0].ack()
    assert {actor.follow() for actor in (*actors, late) if actor is not first[0]} == {2}
    assert all(actor.view.in_force for actor in actors)
    assert scene.halted == []


def test_the_wave_does_not_wait_for_the_silent(scene: Scene) -> None:
    """After 300 ms the change goes to all."""
    scene.publish(policy(1, "one"))
    actors = [scene.actor(f"s{index}") for index in range(3)]
    for actor in actors:
        actor.follow()
    scene.fleet.publish(policy(2, "two"))
    assert sorted(actor.revision() or 0 for actor in actors) == [0, 0, 2]
    scene.alarms.move(0.31)
    assert sorted(actor.revision() or 0 for actor in actors) == [0, 2, 2]


def test_a_refusal_in_the_wave_keeps_the_change_from_all_others(scene: Scene) -> None:
    """It is told once; those that took it are given the one before; the refusing one holds that anyway."""
    scene.publish(policy(1, "one"))
    actors = [scene.actor(f"s{index:03}") for index in range(150)]
    for actor in actors:
        actor.follow()
    scene.fleet.publish(policy(2, "two"))
    first = [actor for actor in actors if actor.revision() == 2]
    assert len(first) == 2
    first[0].ack()
    first[1].nack("bad cluster")
    assert scene.halted == [(2, "bad cluster")]
    assert first[0].follow() == 1
    assert first[1].receive() is None
    assert {actor.receive() for actor in actors} == {None}
    assert (first[1].view.nack, first[1].view.in_force) == ("bad cluster", True)
    assert first[1].view.pushed.startswith("r2-")
    assert first[1].view.acknowledged.startswith("r1-")
    assert scene.actor("late").follow() == 1
    scene.alarms.move(10)
    assert {actor.receive() for actor in actors} == {None}
    assert len(scene.halted) == 1


def test_the_only_sidecar_halts_what_it_refuses(scene: Scene) -> None:
    """On one machine there is no fleet to try it on."""
    scene.publish(policy(1, "one"))
    only = scene.actor("local")
    only.follow()
    scene.publish(policy(2, "two"))
    only.revision()
    only.nack("no")
    assert scene.halted == [(2, "no")]
    assert only.view.in_force
    scene.publish(policy(3, "three"))
    assert only.follow() == 3
    assert only.view.nack is None


def test_the_first_policy_of_all_can_be_halted_too(scene: Scene) -> None:
    """There is none before it: nobody is given anything."""
    scene.publish(policy(1))
    only = scene.actor("local")
    only.revision()
    only.nack("no")
    assert scene.halted == [(1, "no")]
    assert only.receive() is None
    assert scene.actor("other").receive() is None
    scene.publish(policy(0, "empty"))
    assert only.follow() == 0


def test_a_refused_content_is_not_tried_again(scene: Scene) -> None:
    """Another revision with the same content is halted unseen, with the reason of the first."""
    scene.publish(policy(1, "one"))
    actors = [scene.actor("a"), scene.actor("b", "shop")]
    for actor in actors:
        actor.follow()
    scene.publish(policy(2, "one", of={"web": "bad"}))
    actors[0].revision()
    actors[0].nack("bad cluster")
    scene.publish(policy(3, "other", of={"web": "bad"}))
    assert [revision for revision, _ in scene.halted] == [2, 3]
    assert "bad cluster" in scene.halted[1][1]
    assert [actor.receive() for actor in actors] == [None, None]
    scene.publish(policy(4, "other", of={"web": "good"}))
    assert [actor.follow() for actor in actors] == [4, 4]


def test_a_halt_is_for_all_workloads(scene: Scene) -> None:
    """A change is whole or not at all."""
    scene.publish(policy(1, "one"))
    web, shop = scene.actor("w"), scene.actor("s", "shop")
    web.follow()
    shop.follow()
    scene.fleet.publish(policy(2, of={"web": "bad", "shop": "good"}))
    assert shop.follow() == 2
    web.revision()
    web.nack("no")
    assert shop.follow() == 1


def test_after_the_wave_one_sidecar_that_refuses_is_alone(scene: Scene) -> None:
    """It shows why, keeps what it has, and is not sent that content again; the others go on."""
    scene.publish(policy(1, "one"))
    actors = [scene.actor(f"s{index}") for index in range(4)]
    for actor in actors:
        actor.follow()
    scene.fleet.publish(policy(2, "two"))
    first = next(actor for actor in actors if actor.follow() == 2)
    rest = [actor for actor in actors if actor is not first]
    assert rest[0].revision() == 2
    rest[0].nack("not here")
    assert [actor.follow() for actor in rest[1:]] == [2, 2]
    assert scene.halted == []
    view = rest[0].view
    assert (view.nack, view.in_force, view.serving) == ("not here", False, True)
    again = scene.actor(rest[0].sidecar.identity.sidecar)
    assert again.receive() is None
    assert again.view.nack == "not here"


def test_another_build_is_tried_again(scene: Scene) -> None:
    """It may read what the one before could not."""
    scene.publish(policy(1))
    scene.actor("good").follow()
    old = scene.actor("a", build="1")
    old.revision()
    old.nack("unknown field")
    assert scene.actor("a", build="2").follow() == 1


def test_a_revision_that_changes_nothing_for_a_workload_is_not_sent(scene: Scene) -> None:
    """It is in force there all the same, and is shown so."""
    scene.publish(policy(1, "one"))
    web, shop = scene.actor("w"), scene.actor("s", "shop")
    web.follow()
    shop.follow()
    scene.publish(policy(2, "one", of={"shop": "two"}))
    assert (web.receive(), shop.follow()) == (None, 2)
    assert web.view.in_force
    assert web.view.pushed == web.view.acknowledged
    assert web.view.pushed.startswith("r2-")


def test_a_burst_is_pushed_as_its_first_and_its_newest(scene: Scene) -> None:
    """What lies between is skipped."""
    actor = scene.actor("a")
    came = []
    for revision in range(1, 101):
        scene.fleet.publish(policy(revision, str(revision)))
        scene.alarms.move(0.001)
        if (sent := actor.follow()) is not None:
            came.append(sent)
    scene.alarms.move(0.1)
    came.append(actor.follow() or 0)
    assert (came[0], came[-1]) == (1, 100)
    assert len(came) <= 4


def test_a_slow_sidecar_skips_what_it_missed(scene: Scene) -> None:
    """It gets the newest when it reads again."""
    scene.publish(policy(1, "one"))
    slow, quick = scene.actor("slow"), scene.actor("quick")
    slow.follow()
    quick.follow()
    for revision in (2, 3, 4):
        scene.publish(policy(revision, str(revision)))
        quick.follow()
        scene.alarms.move(0.4)
    assert slow.revision() == 4


def test_changes_without_pause_starve_nobody(scene: Scene) -> None:
    """A wave runs to its end before the next begins, so that all get a revision again and again."""
    scene.publish(policy(1, "1"))
    actors = [scene.actor(f"s{index}") for index in range(3)]
    came: dict[str, set[int]] = {actor.sidecar.identity.sidecar: set() for actor in actors}
    for revision in range(2, 200):
        scene.fleet.publish(policy(revision, str(revision)))
        scene.alarms.move(0.02)
        for actor in actors[:2]:  # the third never answers
            came[actor.sidecar.identity.sidecar].add(actor.follow() or 0)
        came["s2"].add(actors[2].revision() or 0)
    assert all(len(revisions) > 8 for revisions in came.values())


def test_changed_secrets_are_pushed_though_the_content_is_the_same(scene: Scene) -> None:
    """Only those that a Backend names, and to nobody's eyes."""
    secrets = {("openai", "k"): b"sk-old", ("other", "k"): b"sk-other"}
    scene.publish(policy(1, secrets=secrets))
    actor = scene.actor("a")
    message = actor.receive()
    assert message is not None
    assert [(item.name, item.key, item.value) for item in message.secrets] == [("openai", "k", b"sk-old")]
    assert b"sk-old" not in message.content
    actor.ack()
    scene.publish(policy(2, secrets={**secrets, ("other", "k"): b"sk-new"}))
    assert actor.receive() is None
    scene.publish(policy(3, secrets={**secrets, ("openai", "k"): b"sk-new"}))
    changed = actor.receive()
    assert changed is not None
    assert (changed.content, changed.secrets[0].value) == (message.content, b"sk-new")
    assert "sk-" not in repr((scene.fleet, policy(1, secrets=secrets), actor.sidecar, actor.view))


def test_what_a_sidecar_holds_is_not_sent_to_it_again(scene: Scene) -> None:
    """After a reconnect it gets the version and the secrets, and acknowledges."""
    scene.publish(policy(1, secrets={("openai", "k"): b"sk-1"}))
    before = scene.actor("a")
    before.follow()
    again = scene.actor("a", in_force=before.sidecar.pushed, keeps=True)
    message = again.receive()
    assert message is not None
    assert (message.kept, message.content, len(message.secrets)) == (True, b"", 1)
    again.ack()
    assert again.view.in_force
    other = scene.actor("b", in_force="r1-0123", keeps=True).receive()
    assert other is not None
    assert not other.kept


def test_contents_go_out_packed_to_those_that_unpack(scene: Scene) -> None:
    """A workload's bytes are made once and shared."""
    scene.publish(policy(1, "x" * 5000))
    packed = [scene.fleet.next_message(scene.actor(name, unpacks=True).sidecar) for name in "ab"]
    plain = scene.fleet.next_message(scene.actor("c", "another").sidecar)
    assert packed[0] is packed[1]
    assert packed[0] is not None
    assert plain is not None
    assert len(packed[0]) * 3 < len(plain)


def test_a_second_connection_supersedes_the_first(scene: Scene) -> None:
    """One sidecar has one stream; the end of the old one does not end the new one."""
    scene.publish(policy(1))
    first = scene.actor("a")
    first.follow()
    second = scene.actor("a")
    assert (first.sidecar.connected, first.woken) == (False, 1)
    first.leave()
    assert second.follow() == 1
    assert [view.id for view in scene.fleet.sidecars()] == ["a"]
    assert second.view.connected


def test_a_way_back_is_taken_at_once(scene: Scene) -> None:
    """Another replica halted the revision: the one before is published again, to all, without a wave."""
    scene.publish(policy(1, "one"), policy(2, "two"))
    actors = [scene.actor(f"s{index}") for index in range(3)]
    for actor in actors:
        actor.follow()
    scene.fleet.publish(policy(1, "one"))
    assert [actor.follow() for actor in actors] == [1, 1, 1]
    scene.publish(policy(3, "three"))
    assert [actor.follow() for actor in actors] == [3, 3, 3]
    assert scene.halted == []


def test_a_halted_revision_that_is_published_again_stays_halted(scene: Scene) -> None:
    """The listener of the store may say it twice."""
    scene.publish(policy(1, "one"))
    only = scene.actor("local")
    only.follow()
    scene.publish(policy(2, "two"))
    only.revision()
    only.nack("no")
    scene.publish(policy(2, "two"), policy(1, "one"))
    assert only.receive() is None
    assert only.view.in_force
    assert {revision for revision, _ in scene.halted} == {2}


def test_who_looks_on_and_fails_keeps_nobody_from_anything(scene: Scene) -> None:
    """Others hear the report all the same; the fault is told once."""
    heard: list[tuple[str, str]] = []

    def broken(before: Told, told: Told) -> None:
        raise ZeroDivisionError

    scene.fleet.listen(broken)
    scene.fleet.listen(lambda before, told: heard.append((before.epoch, told.epoch)))
    sidecar = scene.actor("a").sidecar
    with capture_logs() as logs:
        for epoch in ("e", "f"):
            scene.fleet.told(sidecar, Told(epoch=epoch))
    assert heard == [("", "e"), ("e", "f")]
    assert [line["event"] for line in logs] == ["reports are not heard"]


def test_what_cannot_be_compiled_stays_out(scene: Scene) -> None:
    """A defect of one revision leaves the one before whole, also for who connects then."""

    def broken(workload: str) -> Snapshot:
        raise KeyError(workload)

    scene.publish(policy(1, "one"))
    actor = scene.actor("a")
    actor.follow()
    scene.publish(Policy(2, broken))
    assert [revision for revision, _ in scene.halted] == [2]
    assert actor.receive() is None
    assert scene.actor("b").follow() == 1


def test_seconds_to_be_in_force_are_told(scene: Scene) -> None:
    """Counted from the publishing, once a sidecar and revision."""
    actor = scene.actor("a")
    scene.fleet.publish(policy(1))
    scene.alarms.move(0.2)
    actor.follow()
    actor.ack()
    assert scene.seconds == [pytest.approx(0.2)]


def test_an_answer_to_nothing_that_was_sent_changes_nothing(scene: Scene) -> None:
    """An acknowledgement of an unknown version, or a refusal of it, is a confused subscriber's."""
    scene.publish(policy(1))
    actor = scene.actor("a")
    actor.revision()
    actor.ack("r9-unknown")
    scene.fleet.refuse(actor.sidecar, "r9-unknown", "no")
    assert scene.halted == []
    assert not actor.view.in_force
    assert actor.view.nack is None


def test_an_older_version_acknowledged_again_undoes_no_refusal(scene: Scene) -> None:
    """It is said again when its last exchange ends."""
    scene.publish(policy(1, "one"))
    good, actor = scene.actor("good"), scene.actor("a")
    for one in (good, actor):
        one.follow()
    old = actor.sidecar.acknowledged
    scene.fleet.publish(policy(2, "two"))
    for one in (good, actor, good):
        if one.revision() == 2 and one is good:
            one.ack()
    scene.alarms.move(0.4)
    if actor.sidecar.pushed == old:
        actor.revision()
    actor.nack("no")
    actor.ack(old)
    assert actor.view.nack == "no"


def test_sidecars_long_gone_are_forgotten(scene: Scene) -> None:
    """After an hour; those that are connected never are."""
    scene.publish(policy(1))
    stays, goes = scene.actor("stays"), scene.actor("goes")
    goes.leave()
    assert [view.connected for view in scene.fleet.sidecars()] == [True, False]
    scene.alarms.move(3601)
    scene.actor("new")
    assert [view.id for view in scene.fleet.sidecars()] == ["stays", "new"]
    assert isinstance(stays, Actor)


NAMES = "abcdef"
steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.sampled_from(["good-1", "good-2", "bad-1", "bad-2"])),
        st.tuples(st.just("move"), st.sampled_from([0.01, 0.06, 0.31])),
        st.tuples(st.sampled_from(["read", "answer", "leave", "join"]), st.sampled_from(NAMES)),
    ),
    max_size=60,
)


class Crowd:
    """Sidecars of two workloads that refuse what is bad, and remember what they were sent and hold."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.actors: dict[str, Actor] = {}
        self.unanswered: dict[str, list[tuple[str, str]]] = {name: [] for name in NAMES}
        self.holds: dict[str, str] = {}
        self.refused: dict[str, set[str]] = {name: set() for name in NAMES}
        self.policies: dict[int, Policy] = {}

    def publish(self, text: str) -> None:
        """Publish a revision that is bad for the one workload only."""
        revision = len(self.policies) + 1
        self.policies[revision] = policy(revision, text, of={"shop": text.replace("bad", "good")})
        self.scene.fleet.publish(self.policies[revision])

    def write_down(self) -> None:
        """Do as the registry: publish the newest revision that is not halted."""
        halted = {revision for revision, _ in self.scene.halted}
        self.scene.fleet.publish(self.policies[max(self.policies.keys() - halted)])

    def join(self, name: str) -> None:
        """Connect, also again; what was on its way is lost."""
        self.actors[name] = self.scene.actor(name, "shop" if name in "ab" else "web")
        self.unanswered[name] = []

    def leave(self, name: str) -> None:
        """Go."""
        self.unanswered[name] = []
        if name in self.actors:
            self.actors.pop(name).leave()

    def read(self, name: str) -> None:
        """Receive what there is; it must be nothing that was refused before."""
        if name in self.actors and (message := self.actors[name].receive()) is not None:
            text = decode(message.content).backends["b"].url.rpartition("/")[2]
            assert text not in self.refused[name]
            self.unanswered[name].append((message.version, text))

    def answer(self, name: str) -> None:
        """Answer the oldest message."""
        if name in self.actors and self.unanswered[name]:
            version, text = self.unanswered[name].pop(0)
            sidecar = self.actors[name].sidecar
            if text.startswith("bad"):
                self.refused[name].add(text)
                self.scene.fleet.refuse(sidecar, version, "bad")
            else:
                self.holds[name] = text
                self.scene.fleet.acknowledge(sidecar, version)

    def settle(self) -> None:
        """Let everybody work off everything."""
        for _ in range(8):
            self.write_down()
            self.scene.alarms.move(0.4)
            for name in NAMES:
                self.read(name)
                while self.unanswered[name]:
                    self.answer(name)


@given(steps)
@settings(deadline=None)
def test_in_any_order_all_end_up_with_the_same_good_revision(happened: list[tuple[str, Any]]) -> None:
    """Nothing refused is sent again, each halt is told once, nobody is left behind or holds what is bad."""
    crowd = Crowd()
    for name in NAMES[:4]:
        crowd.join(name)
    crowd.publish("good-0")
    crowd.settle()
    for kind, what in happened:
        if kind == "move":
            crowd.scene.alarms.move(what)
        else:
            getattr(crowd, kind)(what)
    crowd.settle()
    revisions = [revision for revision, _ in crowd.scene.halted]
    assert len(revisions) == len(set(revisions))
    views = [view for view in crowd.scene.fleet.sidecars() if view.connected]
    assert all((view.in_force and view.acknowledged == view.pushed) or view.nack for view in views)
    assert len({view.acknowledged for view in views if view.in_force and view.workload == "web"}) <= 1
    assert not any(text.startswith("bad") for text in crowd.holds.values())
    assert len({crowd.holds[view.id] for view in views if view.id in crowd.holds}) <= 1
    assert all(view.in_force for view in views)


def test_a_question_waits_behind_a_policy_that_is_due() -> None:
    """It is sent once, to those that understand it and are connected."""
    scene = Scene()
    scene.publish(policy(1))
    new, old = scene.actor("new", answers=True), scene.actor("old")
    assert scene.fleet.answering() == {"new"}
    scene.fleet.ask(["new"], push_pb2.Snapshot(question=push_pb2.CacheQuestion(id=7)).SerializeToString())
    assert new.woken > old.woken
    assert new.follow() == 1
    asked = new.receive()
    assert asked is not None
    assert asked.question.id == 7
    assert new.receive() is None
    new.leave()
    assert scene.fleet.answering() == frozenset()


def test_questions_to_a_sidecar_that_reads_no_more_are_forgotten() -> None:
    """The oldest first: nobody waits for their answers any longer."""
    scene = Scene()
    actor = scene.actor("slow", answers=True)
    for number in range(2 * WAITING_QUESTIONS):
        scene.fleet.ask(
            ["slow"], push_pb2.Snapshot(question=push_pb2.CacheQuestion(id=number)).SerializeToString()
        )
    asked = [message.question.id for _ in range(WAITING_QUESTIONS) if (message := actor.receive())]
    assert asked == list(range(WAITING_QUESTIONS, 2 * WAITING_QUESTIONS))
    assert actor.receive() is None


def test_a_sidecar_that_goes_takes_its_use_of_limits_with_it(scene: Scene) -> None:
    """Whoever listens hears that it uses nothing now; connected again it says so anew."""
    heard: list[tuple[int, int]] = []
    scene.fleet.listen(lambda before, after: heard.append((len(before.uses), len(after.uses))))
    connected = scene.fleet.connect(Identity("s", "w"), lambda: None)
    scene.fleet.told(connected, replace(connected.told, uses={"model:m": Use(1)}))
    scene.fleet.disconnect(connected)
    scene.fleet.disconnect(connected)
    scene.fleet.connect(Identity("s", "w"), lambda: None)
    assert heard == [(0, 1), (1, 0)]


def test_what_a_superseded_connection_still_tells_is_not_counted(scene: Scene) -> None:
    """The newer one goes on from what it had told: all of it would be counted twice."""
    heard: list[tuple[int, int]] = []
    earlier = scene.fleet.connect(Identity("s", "w"), lambda: None)
    newer = scene.fleet.connect(Identity("s", "w"), lambda: None)
    scene.fleet.listen(lambda before, after: heard.append((len(before.uses), len(after.uses))))
    scene.fleet.told(earlier, replace(earlier.told, uses={"model:m": Use(1)}))
    scene.fleet.told(newer, replace(newer.told, uses={"model:m": Use(1)}))
    scene.fleet.disconnect(newer)
    assert heard == [(0, 1), (1, 0)]


def test_moves_grow_with_whatever_others_could_see(scene: Scene) -> None:
    """So that nobody has to compare thousands of sidecars to know."""
    fleet = scene.fleet
    seen = [fleet.moves]
    fleet.publish(policy(1))
    seen.append(fleet.moves)
    sidecar = fleet.connect(Identity("s", "w"), lambda: None)
    seen.append(fleet.moves)
    fleet.next_message(sidecar)
    seen.append(fleet.moves)
    fleet.acknowledge(sidecar, sidecar.pushed)
    seen.append(fleet.moves)
    fleet.told(sidecar, replace(sidecar.told, envoy=EnvoyState.LIVE))
    seen.append(fleet.moves)
    fleet.disconnect(sidecar)
    seen.append(fleet.moves)
    assert seen == sorted(set(seen))
    fleet.told(sidecar, replace(sidecar.told, epoch="e"))
    assert fleet.moves == seen[-1]
