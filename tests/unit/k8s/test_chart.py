"""The Helm chart, rendered in process with several values."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from importlib.metadata import version
from inspect import signature
from typing import Any, get_type_hints

import helm_python
import pytest
import yaml

from control_plane.cli.control_plane import control_plane
from control_plane.cli.controller import controller
from tests.harness.chart import CHART, PRODUCTION, objects
from tests.harness.kubernetes_schemas import check

Object = dict[str, Any]
FOREIGN = ("cert-manager.io", "monitoring.coreos.com")
EVERYTHING: Object = {
    "imagePullSecrets": [{"name": "registry"}],
    "image": {"digest": f"sha256:{'0' * 64}"},
    "postgresql": {"bundled": {"enabled": True, "storageClass": "fast"}},
    "redis": {"bundled": {"enabled": True}},
    "networkPolicy": {"enabled": True, "apiFrom": [{"podSelector": {}}]},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "grafanaDashboard": {"enabled": True},
    "webhook": {"certManager": {"enabled": True}, "failurePolicy": "Fail"},
    "sidecar": {"mode": "classic", "variables": ["OPENAI_API_BASE"], "imagePullSecrets": ["registry"]},
    "controlPlane": {
        "autoscaling": {"enabled": True},
        "podDisruptionBudget": {"enabled": True},
        "antiAffinity": "required",
        "prometheusUrl": "http://prometheus:9090",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
        ],
        "podAnnotations": {"a": "b"},
        "podLabels": {"c": "d"},
    },
    "controller": {"podDisruptionBudget": {"enabled": True}, "replicas": 2},
}
CASES: dict[str, Object] = {
    "default": {},
    "production": yaml.safe_load(PRODUCTION.read_text("utf-8")),
    "everything": EVERYTHING,
    "bare": {
        "controller": {"enabled": False},
        "webhook": {"enabled": False},
        "controlPlane": {"persistence": {"enabled": False}, "antiAffinity": "none"},
    },
    "own secrets": {
        "controlPlane": {
            "replicas": 2,
            "database": {"existingSecret": "db"},
            "adminToken": {"existingSecret": "admin"},
            "encryptionKey": {"existingSecret": "key"},
        },
        "redis": {"existingSecret": "redis"},
        "webhook": {"certManager": {"enabled": True, "issuerRef": {"name": "ca", "kind": "ClusterIssuer"}}},
    },
    "urls": {
        "controlPlane": {"replicas": 2, "database": {"url": "postgresql://me:s3cret@db/outrigger"}},
        "redis": {"url": "rediss://:s3cret@redis:6379/0"},
        "networkPolicy": {"enabled": True, "pushFrom": [], "metricsFrom": []},
    },
}
EACH = pytest.mark.parametrize("values", CASES.values(), ids=CASES.keys())


def only(found: list[Object], kind: str, name: str = "") -> Object:
    """Return the one object of a kind (whose name ends so)."""
    (match,) = (o for o in found if o["kind"] == kind and o["metadata"]["name"].endswith(name))
    return match


def pods(found: list[Object]) -> Iterator[Object]:
    """Yield the specification of each workload's pods."""
    for item in found:
        if item["kind"] in ("Deployment", "StatefulSet"):
            yield item["spec"]["template"]["spec"]


def environment(found: list[Object], name: str = "control-plane") -> dict[str, Any]:
    """Return the variables of a Deployment's container: a text, or where it comes from."""
    (container,) = only(found, "Deployment", name)["spec"]["template"]["spec"]["containers"]
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in container["env"]}


@EACH
@pytest.mark.parametrize("kubernetes", ["1.29", "1.36"])
def test_objects_are_valid(values: Object, kubernetes: str) -> None:
    """By Kubernetes' own schemas, unknown fields refused; names are unique, namespaced ones say where."""
    found = objects(values, name="mesh", namespace="llm")
    names = [(o["kind"], o["metadata"]["name"]) for o in found]
    assert len(names) == len(set(names))
    for item in found:
        if not item["apiVersion"].startswith(FOREIGN):
            check(item, kubernetes)
        cluster = item["kind"].startswith("Cluster") or item["kind"] == "MutatingWebhookConfiguration"
        assert item["metadata"].get("namespace") == (None if cluster else "llm")


@EACH
def test_pods_pass_the_restricted_standard(values: Object) -> None:
    """Also those of a bundled Redis and PostgreSQL: non-root, read-only root, no capabilities."""
    for pod in pods(objects(values)):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["enableServiceLinks"] is False
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}
            assert container["readinessProbe"]
            assert container["livenessProbe"]


def test_our_own_pods_run_as_one_numeric_user() -> None:
    """The image's, so that the kubelet can tell that it is not root."""
    assert [pod["securityContext"]["runAsUser"] for pod in pods(objects())] == [10001, 10001]


@EACH
def test_what_is_named_is_there(values: Object) -> None:
    """Selectors find pods, target ports exist, mounts have volumes, accounts and Secrets are rendered."""
    found = objects(values)
    labels = [o["spec"]["template"]["metadata"]["labels"] for o in found if "template" in o.get("spec", {})]
    ports = {p["name"] for pod in pods(found) for c in pod["containers"] for p in c["ports"]}
    named = {(o["kind"], o["metadata"]["name"]) for o in found}
    for item in found:
        spec = item.get("spec", {})
        selector = spec.get("selector", {}) if item["kind"] == "Service" else None
        if item["kind"] in ("PodDisruptionBudget", "Deployment", "StatefulSet"):
            selector = spec["selector"]["matchLabels"]
        if selector is not None:
            assert sum(selector.items() <= label.items() for label in labels) == 1
        if item["kind"] == "Service":
            assert {port["targetPort"] for port in spec["ports"]} <= ports
        if item["kind"].endswith("Binding"):
            assert (item["roleRef"]["kind"], item["roleRef"]["name"]) in named
            assert all(("ServiceAccount", subject["name"]) in named for subject in item["subjects"])
    own = values.get("controlPlane", {})
    given = {
        own.get(key, {}).get("existingSecret") for key in ("database", "adminToken", "encryptionKey")
    } - {None}
    for pod in pods(found):
        if "serviceAccountName" in pod:
            assert ("ServiceAccount", pod["serviceAccountName"]) in named
        volumes = {volume["name"] for volume in pod["volumes"]} | {"data"}
        for container in pod["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
            for item in container.get("env", []):
                secret = item.get("valueFrom", {}).get("secretKeyRef", {}).get("name")
                assert secret is None or secret in given or ("Secret", secret) in named


def test_the_linter_finds_nothing() -> None:
    """Neither with the default nor with the production values."""
    for values in (CASES["default"], CASES["production"]):
        report = helm_python.lint(CHART, values, strict=True, kube_version="v1.29.0")
        assert report["errors"] == []
        assert [m["error"] for m in report["messages"] if m["severity"] > 1] == []


def test_versions_are_the_packages() -> None:
    """The chart is of this version, its default image too, and it needs native sidecars."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["name"] == "outrigger"
    assert chart["version"] == chart["appVersion"] == version("outrigger-llm")
    assert chart["kubeVersion"] == ">=1.29.0-0"
    assert environment(objects())["OUTRIGGER_SIDECAR_IMAGE"] == f"outrigger:{version('outrigger-llm')}"


# Values


def described(schema: Object, path: str = "") -> Iterator[str]:
    """Yield the path of each value that the schema knows; each has to be described and closed."""
    assert schema.get("description"), path
    if "properties" in schema:
        assert schema["additionalProperties"] is False, path
        for name, below in schema["properties"].items():
            yield from described(below, f"{path}.{name}")
    elif "items" in schema and "properties" in schema["items"]:
        assert schema["items"]["additionalProperties"] is False, path
        yield path
    else:
        yield path


def written(values: Object, path: str = "") -> Iterator[str]:
    """Yield the path of each value in `values.yaml`."""
    for name, value in values.items():
        if isinstance(value, dict) and value and name not in ("requests", "limits", "labels"):
            yield from written(value, f"{path}.{name}")
        else:
            yield f"{path}.{name}"


def test_every_value_is_described_and_has_a_default() -> None:
    """The schema and `values.yaml` know the same values; nothing else is let through."""
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    bounds = ("requests.", "limits.")
    known = {path for path in described(schema) if not any(bound in path for bound in bounds)}
    known -= {path for path in known if path.startswith((".global", ".webhook.certManager.issuerRef."))}
    defaults = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    expected = {
        path for path in written(defaults) if not path.endswith((".requests", ".limits", ".issuerRef"))
    }
    assert known == expected


@pytest.mark.parametrize(
    "values",
    [
        {"replicas": 2},
        {"controlPlane": {"replica": 2}},
        {"controlPlane": {"replicas": 0}},
        {"webhook": {"timeoutSeconds": 6}},
        {"webhook": {"failurePolicy": "Maybe"}},
        {"sidecar": {"proxyPort": 80}},
        {"image": {"digest": "latest"}},
        {"controlPlane": {"resources": {"limits": {"memory": "much"}}}},
    ],
)
def test_wrong_values_are_refused(values: Object) -> None:
    """By the schema, before anything is rendered."""
    with pytest.raises(helm_python.HelmValuesError):
        objects(values)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"controlPlane": {"replicas": 2}}, "replicas is 2, but SQLite serves one replica only: set"),
        ({"controlPlane": {"autoscaling": {"enabled": True}}}, "autoscaling.enabled needs PostgreSQL"),
        ({"controlPlane": {"database": {"url": "mysql://a:s3cret@b"}}}, "must begin with postgresql://"),
        ({"redis": {"url": "http://a:s3cret@b"}}, "redis.url must begin with redis://"),
        (
            {"redis": {"url": "redis://:s3cret@b", "bundled": {"enabled": True}}},
            "redis.url and redis.bundled.enabled exclude each other",
        ),
        (
            {
                "controlPlane": {"database": {"url": "postgresql://a:s3cret@b/c"}},
                "postgresql": {"bundled": {"enabled": True}},
            },
            "controlPlane.database.url and postgresql.bundled.enabled exclude each other",
        ),
        (
            {"controlPlane": {"prometheusUrl": "http://me:s3cret@prometheus:9090"}},
            "prometheusUrl may hold no password",
        ),
        (
            {
                "controlPlane": {
                    "database": {"existingSecret": "x"},
                    "autoscaling": {"enabled": True, "minReplicas": 5},
                }
            },
            "minReplicas is greater than maxReplicas",
        ),
    ],
)
def test_contradictions_fail_with_a_sentence(values: Object, sentence: str) -> None:
    """It says what to set and quotes no password."""
    with pytest.raises(helm_python.HelmRenderError) as refused:
        objects(values)
    assert sentence in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_subcharts_hand_over_globals() -> None:
    """An umbrella chart can hold this one."""
    assert objects({"global": {"any": "thing"}})


# Secrets


def test_passwords_are_in_secrets_only() -> None:
    """No URL with a password is in any other object; the Secrets hold it as it was given."""
    found = objects(CASES["urls"])
    assert "s3cret" not in json.dumps([o for o in found if o["kind"] != "Secret"])
    database = only(found, "Secret", "-database")["data"]["url"]
    assert base64.b64decode(database) == b"postgresql://me:s3cret@db/outrigger"
    assert base64.b64decode(only(found, "Secret", "-redis")["data"]["url"]).startswith(b"rediss://:s3cret@")
    assert environment(found)["OUTRIGGER_SIDECAR_REDIS_SECRET"] == "outrigger-redis"
    assert "OUTRIGGER_SIDECAR_REDIS" not in environment(found)


@pytest.mark.parametrize(
    ("redis", "expected"),
    [
        ({"url": "redis://cache:6379/0"}, "redis://cache:6379/0"),
        ({"bundled": {"enabled": True}}, "redis://outrigger-redis.outrigger-system.svc:6379/0"),
    ],
)
def test_a_redis_without_a_password_is_told_as_it_is(redis: Object, expected: str) -> None:
    """Nothing has to be copied into other namespaces."""
    assert environment(objects({"redis": redis}))["OUTRIGGER_SIDECAR_REDIS"] == expected


def test_the_webhooks_certificate_is_left_to_the_control_plane() -> None:
    """Its Secret is an object of the chart (so it goes with it), without data (so no upgrade changes it)."""
    found = objects()
    assert "data" not in only(found, "Secret", "-webhook-certificate")
    assert environment(found)["OUTRIGGER_WEBHOOK_SECRET"] == "outrigger-webhook-certificate"
    (hook,) = only(found, "MutatingWebhookConfiguration")["webhooks"]
    assert "caBundle" not in hook["clientConfig"]


def test_the_encryption_key_stays_with_the_database() -> None:
    """On PostgreSQL it is the replicas' common one and outlives an uninstall; SQLite's is beside it."""
    kept = only(objects(CASES["urls"]), "Secret", "-encryption")
    assert kept["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert len(base64.b64decode(base64.b64decode(kept["data"]["key"]))) == 32
    assert "OUTRIGGER_SECRET_KEY" not in environment(objects())


# The control plane and the controller


def options(command: Any) -> set[str]:
    """Return the variables that a command takes."""
    hints = get_type_hints(command, include_extras=True).values()
    return {option.envvar for hint in hints for option in getattr(hint, "__metadata__", ())}


def test_the_control_plane_is_told_what_it_understands() -> None:
    """Each of its variables is an option of the command, whatever is switched on."""
    known = options(control_plane) | {"POD_NAME", "POD_NAMESPACE", "OUTRIGGER_SECRET_KEY"}
    for values in CASES.values():
        assert environment(objects(values)).keys() <= known


def test_arguments_are_options() -> None:
    """Of the command that each container runs."""
    for name, command in (("control-plane", control_plane), ("controller", controller)):
        (container,) = only(objects(), "Deployment", name)["spec"]["template"]["spec"]["containers"]
        assert container["args"][0] == name
        known = {f"--{parameter.replace('_', '-')}" for parameter in signature(command).parameters}
        assert {word for word in container["args"] if word.startswith("--")} <= known


def test_the_controller_is_told_what_it_understands() -> None:
    """Where the API is and its token; its Lease and its Secrets are where it runs."""
    told = environment(objects(), "controller")
    assert told.keys() <= options(controller) | {"POD_NAME", "POD_NAMESPACE", "OUTRIGGER_TOKEN"}
    assert told["OUTRIGGER_SERVER"] == "http://outrigger-api.outrigger-system.svc:8080"


def test_one_replica_on_sqlite_has_a_volume() -> None:
    """Which outlives an uninstall. It is never two: the old pod goes before the new one comes."""
    found = objects()
    control = only(found, "Deployment", "control-plane")["spec"]
    assert (control["replicas"], control["strategy"]) == (1, {"type": "Recreate"})
    volume = only(found, "PersistentVolumeClaim")
    assert volume["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert volume["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert "OUTRIGGER_DATABASE" not in environment(found)


def test_production_is_two_replicas_on_postgresql() -> None:
    """On different nodes, one of them always there, without a volume; two controllers."""
    found = objects(CASES["production"])
    control = only(found, "Deployment", "control-plane")["spec"]
    assert control["replicas"] == 2
    assert control["strategy"]["type"] == "RollingUpdate"
    assert "podAntiAffinity" in control["template"]["spec"]["affinity"]
    assert only(found, "Deployment", "controller")["spec"]["replicas"] == 2
    assert only(found, "PodDisruptionBudget", "control-plane")["spec"]["minAvailable"] == 1
    assert not [o for o in found if o["kind"] == "PersistentVolumeClaim"]
    assert environment(found)["OUTRIGGER_DATABASE"]["secretKeyRef"]["name"] == "outrigger-postgresql"


def test_a_url_beats_the_secret_of_the_production_values() -> None:
    """So that `-f values-production.yaml --set controlPlane.database.url=…` is what it says."""
    url = {"controlPlane": {**CASES["production"]["controlPlane"], "database": {"url": "postgresql://db/x"}}}
    for existing in ("", "other"):
        url["controlPlane"]["database"]["existingSecret"] = existing
        found = objects(url)
        assert environment(found)["OUTRIGGER_DATABASE"]["secretKeyRef"]["name"] == "outrigger-database"
        assert only(found, "Secret", "-database")


def test_replicas_on_nodes_of_their_own_are_replaced_one_after_another() -> None:
    """Else the new one would wait for a node that the old ones do not leave."""
    rolled = only(objects(EVERYTHING), "Deployment", "control-plane")["spec"]["strategy"]["rollingUpdate"]
    assert rolled == {"maxUnavailable": 1, "maxSurge": 0}


def test_an_autoscaler_owns_the_number_of_replicas() -> None:
    """The Deployment says none, so that no upgrade puts it back."""
    found = objects(EVERYTHING)
    assert "replicas" not in only(found, "Deployment", "control-plane")["spec"]
    assert only(found, "HorizontalPodAutoscaler")["spec"]["minReplicas"] == 2


@EACH
def test_rights_are_named_one_by_one(values: Object) -> None:
    """No wildcards; Secrets in the release's namespace only; writing is what is named here."""
    writes = set()
    for item in objects(values):
        for rule in item.get("rules", []) if item["kind"] in ("Role", "ClusterRole") else []:
            assert "*" not in json.dumps(rule)
            if item["kind"] == "ClusterRole":
                assert "secrets" not in rule["resources"]
            writes |= {
                (resource, verb)
                for resource in rule["resources"]
                for verb in rule["verbs"]
                if verb not in ("get", "list", "watch")
            }
    plurals = ("backends", "models", "tiers", "consumers", "policies", "releases", "pins")
    assert writes <= {
        ("tokenreviews", "create"),
        ("mutatingwebhookconfigurations", "patch"),
        ("secrets", "update"),
        *(("leases", verb) for verb in ("create", "update", "patch")),
        *((f"{plural}/status", "patch") for plural in plurals),
    }


# Injection


def test_the_registration_asks_for_opted_in_namespaces_only() -> None:
    """New pods of labelled namespaces; never Kubernetes' own namespaces nor the mesh's; no pod waits long."""
    (hook,) = only(objects(), "MutatingWebhookConfiguration")["webhooks"]
    selector = hook["namespaceSelector"]
    assert selector["matchLabels"] == {"outrigger.dev/inject": "enabled"}
    (excluded,) = selector["matchExpressions"]
    assert (excluded["key"], excluded["operator"]) == ("kubernetes.io/metadata.name", "NotIn")
    assert {"kube-system", "kube-public", "kube-node-lease", "outrigger-system"} == set(excluded["values"])
    assert hook["objectSelector"]["matchExpressions"] == [
        {"key": "outrigger.dev/inject", "operator": "NotIn", "values": ["disabled"]}
    ]
    assert hook["rules"] == [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["pods"],
            "scope": "Namespaced",
        }
    ]
    assert hook["clientConfig"]["service"] == {
        "name": "outrigger-webhook",
        "namespace": "outrigger-system",
        "path": "/inject",
        "port": 443,
    }
    assert (hook["failurePolicy"], hook["sideEffects"]) == ("Ignore", "None")
    assert (hook["reinvocationPolicy"], hook["admissionReviewVersions"]) == ("IfNeeded", ["v1"])
    assert hook["timeoutSeconds"] <= 5


def test_cert_manager_issues_the_certificate() -> None:
    """For webhook and push stream, mounted as files; cainjector puts the authority into the registration.

    The authority outlives its certificates with one key: pods know it from their start.
    """
    found = objects(EVERYTHING)
    authority, certificate = (item for item in found if item["kind"] == "Certificate")
    assert authority["spec"]["isCA"] is True
    assert authority["spec"]["privateKey"]["rotationPolicy"] == "Never"
    signed_by = only(found, "Issuer", certificate["spec"]["issuerRef"]["name"])
    assert signed_by["spec"] == {"ca": {"secretName": authority["spec"]["secretName"]}}
    assert "outrigger-webhook.outrigger-system.svc" in certificate["spec"]["dnsNames"]
    assert "outrigger-push.outrigger-system.svc" in certificate["spec"]["dnsNames"]
    registration = only(found, "MutatingWebhookConfiguration")
    assert registration["metadata"]["annotations"] == {
        "cert-manager.io/inject-ca-from": f"outrigger-system/{certificate['metadata']['name']}"
    }
    told = environment(found)
    for name in ("OUTRIGGER_WEBHOOK_CERT", "OUTRIGGER_PUSH_CERT", "OUTRIGGER_SIDECAR_CONTROL_PLANE_CA"):
        assert told[name].startswith("/etc/outrigger/webhook/")
    rights = json.dumps([o["rules"] for o in found if o["kind"] in ("Role", "ClusterRole")])
    assert "mutatingwebhookconfigurations" not in rights


def test_without_injection_nothing_of_it_is_left() -> None:
    """No registration, no port, no rights."""
    found = objects(CASES["bare"])
    assert not [o for o in found if "ebhook" in o["kind"] or "webhook" in o["metadata"]["name"]]
    assert not [name for name in environment(found) if "WEBHOOK" in name]


# Observability


def test_the_dashboard_is_a_config_map() -> None:
    """The same file that people import by hand, found by Grafana by a label."""
    board = only(objects(EVERYTHING), "ConfigMap")
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(board["data"]["outrigger.json"]) == json.loads(
        (CHART / "dashboards" / "outrigger.json").read_text("utf-8")
    )


def test_monitors_ask_ports_that_exist() -> None:
    """The control plane by its Service, controllers and sidecars by their pods."""
    found = objects(EVERYTHING)
    (endpoint,) = only(found, "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in only(found, "Service", "-api")["spec"]["ports"]}
    sidecars = only(found, "PodMonitor", "-sidecars")["spec"]
    assert sidecars["namespaceSelector"] == {"any": True}
    assert sidecars["selector"]["matchLabels"] == {"outrigger.dev/injected": "true"}


def test_closed_networks_close_the_controller_too() -> None:
    """An empty list of peers lets nobody in, rather than everybody."""
    policies = {o["metadata"]["name"]: o for o in objects(CASES["urls"]) if o["kind"] == "NetworkPolicy"}
    assert policies["outrigger-controller"]["spec"]["ingress"] == []
    ports = [rule["ports"][0]["port"] for rule in policies["outrigger-control-plane"]["spec"]["ingress"]]
    assert ports == ["api", "webhook"]
