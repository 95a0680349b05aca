"""The table of commands: where each one's function is, its line in the list, and an example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

RUN: Final = "Run"
MEASURE: Final = "Measure"
POLICY: Final = "Policy"
ACCESS: Final = "Access"


@dataclass(frozen=True, slots=True)
class Entry:
    """One command, or with `commands` a group of them.

    `target` is `module:function` below `control_plane.cli`; `example` is "" for a command that shows its
    own. One that `serves` runs until a signal ends it, which is its success.
    """

    target: str
    summary: str
    example: str = ""
    panel: str = RUN
    serves: bool = False
    commands: Mapping[str, Entry] = field(default_factory=dict)


def _group(summary: str, example: str, panel: str = ACCESS, **commands: Entry) -> Entry:
    below = {name: replace(entry, panel="Commands") for name, entry in commands.items()}
    return Entry("", summary, example, panel, commands=below)


COMMANDS: Final[Mapping[str, Entry]] = {
    "up": Entry(
        "up:up",
        "Run the whole mesh on this machine; without a file, a demo.",
        "outrigger up -f policy.yaml --proxy-port 10000",
        serves=True,
    ),
    "sidecar": Entry(
        "sidecar:sidecar",
        "Run one sidecar: agent, processors and Envoy.",
        "outrigger sidecar --control-plane 10.0.0.5:9900 --workload checkout",
        serves=True,
    ),
    "control-plane": Entry(
        "control_plane:control_plane",
        "Run the control plane: the API, the push stream, the store.",
        "outrigger control-plane --database postgresql://policy@db/outrigger --bind 0.0.0.0",
        serves=True,
    ),
    "install": Entry(
        "install:install",
        "Print the manifests of a trial in Kubernetes.",
        "outrigger install --dry-run | kubectl apply --server-side -f -",
    ),
    "controller": Entry(
        "controller:controller",
        "Run the controller: custom resources into the control plane.",
        "outrigger controller --server http://outrigger-api:8080 --lease-namespace outrigger-system",
        serves=True,
    ),
    "inject": Entry(
        "inject:inject",
        "Put sidecars into manifests, offline.",
        "outrigger inject -f deployment.yaml | kubectl apply -f -",
    ),
    "provider": Entry(
        "provider:provider",
        "Run the simulated provider, OpenAI-compatible and free.",
        serves=True,
    ),
    "bench": Entry(
        "bench:bench",
        "Put load on a sidecar or a provider, and report.",
        "outrigger bench --url http://127.0.0.1:10000/v1 --model gpt-4o-mini --concurrency 50",
        MEASURE,
    ),
    "tune": Entry(
        "tune:tune",
        "Find the batch size that serves best, and apply it.",
        "outrigger tune --url http://127.0.0.1:10000/v1 --model gpt-4o-mini --policy batching --apply",
        MEASURE,
    ),
    "diagnose": Entry(
        "diagnose:diagnose",
        "Find where latency comes from, and what gains it back.",
        "outrigger diagnose --url https://api.openai.com/v1 --model gpt-4o-mini --max-tokens 50000",
        MEASURE,
    ),
    "validate": Entry(
        "validate:validate",
        "Check documents without any server.",
        "outrigger validate -f policy.yaml -o json",
        POLICY,
    ),
    "diff": Entry(
        "apply:diff",
        "Show what applying files would change.",
        "outrigger diff -f policy.yaml",
        POLICY,
    ),
    "apply": Entry(
        "apply:apply",
        "Create or replace the documents of files, all or nothing.",
        "outrigger apply -f policy.yaml --wait",
        POLICY,
    ),
    "get": Entry(
        "get:get",
        "List documents, or show one.",
        "outrigger get models gpt-4o -o yaml",
        POLICY,
    ),
    "delete": Entry("delete:delete", "Delete one document.", "outrigger delete models gpt-4o", POLICY),
    "history": Entry(
        "history:history",
        "List revisions, or show what one of them changed.",
        "outrigger history models gpt-4o; outrigger history --diff 12",
        POLICY,
    ),
    "rollback": Entry("history:rollback", "Go back to an earlier revision.", "outrigger rollback 12", POLICY),
    "explain": Entry(
        "explain:explain",
        "Show which Policy sets what for a request.",
        "outrigger explain --model gpt-4o --tier gold --workload checkout",
        POLICY,
    ),
    "status": Entry(
        "status:status",
        "Show every sidecar and the policy it serves.",
        "outrigger status",
        POLICY,
    ),
    "release": _group(
        "Start, watch and lead grey releases.",
        "outrigger release status mini-2025-02",
        POLICY,
        start=Entry(
            "release:start", "Start the Releases of files.", "outrigger release start -f release.yaml"
        ),
        status=Entry("release:status", "Show how far one is.", "outrigger release status mini-2025-02"),
        promote=Entry("release:promote", "Take one a step on.", "outrigger release promote mini-2025-02"),
        pause=Entry("release:pause", "Hold one at its share.", "outrigger release pause mini-2025-02"),
        resume=Entry("release:resume", "Let one go on.", "outrigger release resume mini-2025-02"),
        abort=Entry("release:abort", "End one: share 0.", "outrigger release abort mini-2025-02"),
    ),
    "token": _group(
        "Make and revoke tokens of the API.",
        "outrigger token create --role viewer",
        create=Entry(
            "token:create", "Make a token.", "export OUTRIGGER_TOKEN=$(outrigger token create --role editor)"
        ),
        list=Entry("token:list_tokens", "List the tokens.", "outrigger token list"),
        revoke=Entry("token:revoke", "Revoke a token.", "outrigger token revoke 3f9c2a"),
    ),
    "key": _group(
        "Make, rotate and revoke keys of Consumers.",
        "outrigger key create team-a",
        create=Entry("key:create", "Make a key.", "outrigger key create team-a --expires 90d"),
        list=Entry("key:list_keys", "List a Consumer's keys.", "outrigger key list team-a"),
        rotate=Entry(
            "key:rotate",
            "Make a new key; the old one ends later.",
            "outrigger key rotate team-a 3f9c2a --overlap 1h",
        ),
        revoke=Entry("key:revoke", "Revoke a key at once.", "outrigger key revoke team-a 3f9c2a"),
    ),
    "secret": _group(
        "Store providers' keys, encrypted.",
        "outrigger secret set openai api-key < key.txt",
        set=Entry("secret:set_secret", "Store a value.", "outrigger secret set openai api-key < key.txt"),
        list=Entry("secret:list_secrets", "List names and keys.", "outrigger secret list"),
        delete=Entry("secret:delete", "Delete a secret.", "outrigger secret delete openai"),
        rotate=Entry("secret:rotate", "Encrypt all of it anew.", "outrigger secret rotate"),
    ),
    "cache": _group(
        "See and purge cached answers.",
        "outrigger cache stats",
        POLICY,
        stats=Entry("cache:stats", "Show what hits saved.", "outrigger cache stats"),
        get=Entry("cache:get", "Show one cached answer.", "outrigger cache get 9f2c01"),
        purge=Entry(
            "cache:purge",
            "Make cached answers void.",
            "outrigger cache purge --model gpt-4o-mini --tenant team-a",
        ),
        export=Entry(
            "cache:export",
            "List every cached answer.",
            "outrigger cache export -o json | jq -r .tenant | sort | uniq -c",
        ),
    ),
}
