"""The decision about a pod, applied strictly and validated against Kubernetes' own schemas."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from control_plane.webhook.patch import Injection, Outcome, inject
from control_plane.webhook.settings import Mode
from control_plane.webhook.shape import check_pod
from tests.unit.control_plane.webhook.pods import (
    AUTHORITY,
    SETTINGS,
    environment,
    injected,
    pod,
    skipped,
)

URL = "http://127.0.0.1:10000/v1"
CLASSIC = replace(SETTINGS, mode=Mode.CLASSIC)


def test_the_pair_comes_first_as_native_sidecars() -> None:
    """Processor, then Envoy, restarted for ever, with startup probes; the pod's own order is kept."""
    inits = [{"name": "one", "image": "a"}, {"name": "two", "image": "b"}]
    result = injected(pod({"initContainers": inits}))["spec"]["initContainers"]
    assert [item["name"] for item in result] == ["outrigger-processor", "outrigger-envoy", "one", "two"]
    for container in result[:2]:
        assert container["restartPolicy"] == "Always"
        assert container["startupProbe"]["httpGet"]
    assert "readinessProbe" not in result[0]
    assert "restartPolicy" not in result[2]


def test_application_and_init_containers_are_told_where_the_proxy_is() -> None:
    """Each container that does not set the variable gets it, ahead of those that may refer to it."""
    own = [{"name": "OPENAI_BASE_URL", "value": "http://elsewhere/v1"}]
    referred = [{"name": "OPENAI_BASE_URL", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}]
    other = [{"name": "CHAT", "value": "$(OPENAI_BASE_URL)/chat"}]
    result = injected(
        pod(
            {
                "initContainers": [{"name": "i", "image": "i"}],
                "containers": [
                    {"name": "none", "image": "i"},
                    {"name": "empty", "image": "i", "env": []},
                    {"name": "own", "image": "i", "env": own},
                    {"name": "referred", "image": "i", "env": referred},
                    {"name": "other", "image": "i", "env": other},
                ],
            }
        )
    )["spec"]
    containers = {item["name"]: item for item in (*result["initContainers"], *result["containers"])}
    for name in ("i", "none", "empty", "other"):
        assert containers[name]["env"][0] == {"name": "OPENAI_BASE_URL", "value": URL}
    assert containers["other"]["env"][1:] == other
    assert (containers["own"]["env"], containers["referred"]["env"]) == (own, referred)
    assert "OPENAI_BASE_URL" not in environment(containers["outrigger-processor"])


def test_other_clients_variables_are_set_by_option() -> None:
    """A variable that another client reads is set like OpenAI's, and left alone where it is set."""
    wanted = replace(SETTINGS, variables=("OPENAI_API_BASE", "BASE_URL"))
    present = [{"name": "BASE_URL", "value": "x"}]
    (container,) = injected(pod({"containers": [{"name": "a", "image": "a", "env": present}]}), wanted)[
        "spec"
    ]["containers"]
    assert environment(container) == {"OPENAI_BASE_URL": URL, "OPENAI_API_BASE": URL, "BASE_URL": "x"}


def test_the_pair_passes_the_restricted_standard() -> None:
    """No root, no rights, a read-only root, the default seccomp profile; and bounded resources."""
    for container in injected(pod())["spec"]["initContainers"]:
        context = container["securityContext"]
        assert context["runAsNonRoot"] is True
        assert context["runAsUser"] == 10001
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert set(container["resources"]) == {"requests", "limits"}


def test_no_secret_stands_in_a_pod() -> None:
    """The token is projected and short-lived, the authority public, a Redis URL with a password a file."""
    spec = injected(pod(), replace(SETTINGS, redis_secret="redis"))["spec"]
    processor = spec["initContainers"][0]
    assert {item["name"] for item in processor["env"]} == {"POD_NAME", "POD_NAMESPACE"}
    volumes = {item["name"]: item for item in spec["volumes"]}
    sources = volumes["outrigger-token"]["projected"]["sources"]
    assert sources[0]["serviceAccountToken"]["audience"] == "outrigger"
    assert volumes["outrigger-redis"]["secret"]["optional"] is True
    assert "--redis-file" in processor["args"]


def test_the_authority_reaches_the_pair_by_an_annotation() -> None:
    """The authority of the push stream is a file that the pod's own annotation fills."""
    result = injected(pod())
    assert result["metadata"]["annotations"]["outrigger.dev/control-plane-ca"] == AUTHORITY
    assert "--control-plane-ca" in result["spec"]["initContainers"][0]["args"]
    clear = injected(pod(), replace(SETTINGS, authority=None))
    assert "--control-plane-ca" not in clear["spec"]["initContainers"][0]["args"]
    assert "outrigger.dev/control-plane-ca" not in clear["metadata"]["annotations"]


def test_an_injected_pod_does_not_change_again() -> None:
    """The API server asks again after other webhooks: nothing is put in twice."""
    once = injected(pod({"initContainers": [{"name": "i", "image": "i"}]}))
    again = inject(check_pod(once), "shop", SETTINGS)
    assert isinstance(again, Injection)
    assert (again.patch, again.outcome) == ((), Outcome.UNCHANGED)


def test_a_container_that_came_later_is_told_too() -> None:
    """Another webhook's container gets the proxy's address at the second look, at the annotated port."""
    once = injected(pod(annotations={"outrigger.dev/proxy-port": "12000"}))
    once["spec"]["containers"].append({"name": "late", "image": "late"})
    again = injected(once)
    assert environment(again["spec"]["containers"][1]) == {"OPENAI_BASE_URL": "http://127.0.0.1:12000/v1"}
    assert len(again["spec"]["initContainers"]) == 2


@pytest.mark.parametrize(
    ("spec", "metadata", "outcome"),
    [
        ({}, {"labels": {"outrigger.dev/inject": "disabled"}}, Outcome.OPTED_OUT),
        ({}, {"annotations": {"outrigger.dev/inject": "disabled"}}, Outcome.OPTED_OUT),
        ({"hostNetwork": True}, {}, Outcome.HOST_NETWORK),
        ({"os": {"name": "windows"}}, {}, Outcome.WINDOWS),
        ({"nodeSelector": {"kubernetes.io/os": "windows"}}, {}, Outcome.WINDOWS),
        ({"securityContext": {"windowsOptions": {"hostProcess": True}}}, {}, Outcome.WINDOWS),
        ({}, {"labels": {"outrigger.dev/inject": "false"}}, Outcome.OPTED_OUT),
        ({}, {"annotations": {"outrigger.dev/inject": "perhaps"}}, Outcome.BAD_ANNOTATION),
        ({}, {"labels": {"outrigger.dev/inject": ""}}, Outcome.BAD_ANNOTATION),
        ({}, {"annotations": {"outrigger.dev/proxy-port": "80"}}, Outcome.BAD_ANNOTATION),
        ({}, {"annotations": {"kubernetes.io/config.mirror": "a"}}, Outcome.STATIC_POD),
        ({"volumes": [{"name": "outrigger-run", "emptyDir": {}}]}, {}, Outcome.NAME_IN_USE),
        ({"initContainers": [{"name": "outrigger-envoy", "image": "x"}]}, {}, Outcome.NAME_IN_USE),
        ({"containers": [{"name": "outrigger-processor", "image": "x"}]}, {}, Outcome.NAME_IN_USE),
        (
            {"containers": [{"name": "a", "image": "x", "ports": [{"containerPort": 10000}]}]},
            {},
            Outcome.PORT_IN_USE,
        ),
        (
            {"containers": [{"name": "a", "image": "x", "livenessProbe": {"tcpSocket": {"port": 10000}}}]},
            {},
            Outcome.PORT_IN_USE,
        ),
        (
            {
                "containers": [
                    {"name": "a", "image": "x", "lifecycle": {"preStop": {"httpGet": {"port": 10000}}}}
                ]
            },
            {},
            Outcome.PORT_IN_USE,
        ),
    ],
)
def test_pods_that_are_not_injected(spec: dict[str, Any], metadata: dict[str, Any], outcome: Outcome) -> None:
    """Each has its reason; whoever makes one that did not ask for it is warned."""
    reason = skipped(pod(spec, **metadata))
    assert reason.outcome is outcome
    assert reason.reason
    assert bool(reason.warnings) is (outcome not in {Outcome.OPTED_OUT, Outcome.STATIC_POD})


def test_the_word_that_is_not_taken_is_told_by_its_place() -> None:
    """Whoever made the pod can find it."""
    assert skipped(pod(labels={"outrigger.dev/inject": "0"})).warnings == (
        "outrigger: no sidecar: label outrigger.dev/inject must be disabled or enabled",
    )


def test_a_pod_that_says_yes_is_injected() -> None:
    """Its namespace has said so too, or nobody would ask."""
    assert injected(pod(labels={"outrigger.dev/inject": "enabled"}))["spec"]["initContainers"]


def test_a_port_of_another_protocol_is_not_the_proxy_s() -> None:
    """The proxy listens on TCP: both can be."""
    ports = [{"containerPort": 10000, "protocol": "UDP"}]
    result = injected(pod({"containers": [{"name": "a", "image": "a", "ports": ports}]}))
    assert result["spec"]["containers"][0]["ports"] == ports


@pytest.mark.parametrize("namespace", ["kube-system", "kube-anything", "mesh"])
def test_system_namespaces_are_left_alone(namespace: str) -> None:
    """Kubernetes' own and ours are never injected, whatever the registration says."""
    assert skipped(pod(), namespace=namespace).outcome is Outcome.SYSTEM_NAMESPACE


def test_a_pod_that_runs_an_envoy_is_injected() -> None:
    """An image is no reason: only our own names count, and our other ports move out of the way."""
    ports = [{"containerPort": 9901}, {"containerPort": 19001}, {"containerPort": 19003}]
    result = injected(
        pod({"containers": [{"name": "envoy", "image": "envoyproxy/envoy:v1.40.0", "ports": ports}]})
    )
    processor, envoy = result["spec"]["initContainers"]
    assert envoy["ports"][0]["containerPort"] == 19002
    assert processor["ports"][0]["containerPort"] == 19004
    assert processor["args"][processor["args"].index("--envoy-admin-port") + 1] == "19005"


@pytest.mark.parametrize("port", ["1024", "65535", "19001"])
def test_the_proxy_s_port_is_the_pod_s_choice(port: str) -> None:
    """Any port that needs no rights; our own others move."""
    result = injected(pod(annotations={"outrigger.dev/proxy-port": port}))
    args = result["spec"]["initContainers"][0]["args"]
    assert args[args.index("--proxy-port") + 1] == port
    assert args[args.index("--health-port") + 1] != port
    assert environment(result["spec"]["containers"][0])["OPENAI_BASE_URL"].endswith(f":{port}/v1")


def test_an_annotation_that_is_misspelt_is_told() -> None:
    """The pod is injected all the same; other people's annotations are nobody's business here."""
    found = inject(
        pod(annotations={"outrigger.dev/proxyport": "11000", "a.b/proxyport": "1"}), "apps", SETTINGS
    )
    assert isinstance(found, Injection)
    assert found.warnings == (
        "outrigger: outrigger.dev/proxyport is no annotation of ours; did you mean outrigger.dev/proxy-port?",
    )


def test_keys_with_slashes_and_tildes_stay() -> None:
    """What was there is there, whatever its name looks like."""
    result = injected(pod(annotations={"a.b/c~d": "1"}, labels={"a.b/c~d": "2"}))
    assert result["metadata"]["annotations"]["a.b/c~d"] == "1"
    assert result["metadata"]["labels"]["a.b/c~d"] == "2"


def test_classic_containers_stand_beside_the_application() -> None:
    """Last, so that the application stays the default container; its init containers cannot call yet."""
    result = injected(pod({"initContainers": [{"name": "i", "image": "i"}]}), CLASSIC)["spec"]
    assert [item["name"] for item in result["containers"]] == [
        "app",
        "outrigger-processor",
        "outrigger-envoy",
    ]
    assert "restartPolicy" not in result["containers"][1]
    assert result["containers"][2]["lifecycle"]["preStop"]["httpGet"]["path"] == "/wait"
    assert result["initContainers"] == [{"name": "i", "image": "i"}]
    again = inject(check_pod(injected(pod(), CLASSIC)), "shop", CLASSIC)
    assert isinstance(again, Injection)
    assert not again.patch


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_a_job_gets_no_classic_containers(policy: str) -> None:
    """They would keep it from completing; native sidecars end with it."""
    reason = skipped(pod({"restartPolicy": policy}), CLASSIC)
    assert reason.outcome is Outcome.COMPLETES
    assert reason.warnings
    assert injected(pod({"restartPolicy": policy}))["spec"]["restartPolicy"] == policy


def test_pull_secrets_are_added_once() -> None:
    """Private registries: a name that the pod has is not added again."""
    result = injected(pod({"imagePullSecrets": [{"name": "a"}]}), replace(SETTINGS, pull_secrets=("a", "b")))
    assert result["spec"]["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}]


_KEYS = st.sampled_from(["a", "a.b/c~d", "x~1y", "outrigger.dev/other"])
_MAPS = st.none() | st.dictionaries(_KEYS, st.just("v"), max_size=2)
_ENV = st.none() | st.lists(
    st.sampled_from(["A", "OPENAI_BASE_URL"]).map(lambda name: {"name": name, "value": "v"}), max_size=2
)


@st.composite
def _pods(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a pod with each optional part absent, null, empty or filled."""

    def container(name: str) -> dict[str, Any]:
        made: dict[str, Any] = {"name": name, "image": "i"}
        if draw(st.booleans()):
            made["env"] = draw(_ENV)
        return made

    names = draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True))
    inits = draw(st.integers(0, len(names) - 1))
    spec: dict[str, Any] = {"containers": [container(name) for name in names[inits:]]}
    if inits or draw(st.booleans()):
        spec["initContainers"] = [container(name) for name in names[:inits]] or draw(
            st.sampled_from([None, []])
        )
    volumes = draw(st.sampled_from(["absent", None, [], [{"name": "v", "emptyDir": {}}]]))
    if volumes != "absent":
        spec["volumes"] = volumes
    metadata: dict[str, Any] = {
        name: draw(_MAPS) for name in ("labels", "annotations") if draw(st.booleans())
    }
    made = {"apiVersion": "v1", "kind": "Pod", "spec": spec}
    named = draw(st.booleans())
    if metadata or named:
        made["metadata"] = {**metadata, "generateName": "checkout-"}
    return made


@given(_pods(), st.sampled_from([SETTINGS, CLASSIC]))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_every_mix_of_absent_empty_and_filled_is_injected(original: dict[str, Any], chosen: Any) -> None:
    """The patch applies strictly, the original is untouched, and all that was there is there in order."""
    before = copy.deepcopy(original)
    result = injected(original, chosen, schemas=())
    assert original == before
    for kind in ("containers", "initContainers"):
        ours = [item for item in result["spec"].get(kind) or () if not item["name"].startswith("outrigger-")]
        assert [item["name"] for item in ours] == [item["name"] for item in original["spec"].get(kind) or ()]
    for name in ("labels", "annotations"):
        own = (original.get("metadata") or {}).get(name) or {}
        assert own.items() <= result["metadata"][name].items()
    assert (original["spec"].get("volumes") or []) == result["spec"]["volumes"][
        : len(original["spec"].get("volumes") or [])
    ]
    again = inject(check_pod(result), "shop", chosen)
    assert isinstance(again, Injection)
    assert not again.patch
