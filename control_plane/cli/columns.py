"""Which columns a list has, and what stands in them (pure). Trusts no answer's form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from control_plane.cli.amounts import grouped, number, share, size, span
from control_plane.cli.changes import short, written

SHOWN: Final = 3
SHOWN_DIGITS: Final = 16

Item = Mapping[str, Any]
Column = tuple[str, Callable[[Item], str]]


def cells(plural: str, items: Sequence[Item]) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns of a list and its rows."""
    columns = COLUMNS[plural]
    return [name for name, _ in columns], [[cell(item) for _, cell in columns] for item in items]


def at(path: str) -> Callable[[Item], str]:
    """Return what reads the field at `path` (`spec.match.header`) as text, "" where it is not."""

    def read(item: Item) -> str:
        return _text(_value(item, path))

    return read


def moment(text: Any) -> str:
    """Return an RFC 3339 time without its fraction."""
    head, dot, rest = str(text or "").partition(".")
    return head + (rest.lstrip("0123456789") if dot else "")


def _value(item: Any, path: str) -> Any:
    for part in path.split("."):
        item = item.get(part) if isinstance(item, Mapping) else None
    return item


def _text(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    if isinstance(value, Mapping) and not any(isinstance(one, list | dict) for one in value.values()):
        return ", ".join(f"{name}={_text(one)}" for name, one in value.items())
    return written(value)


def _credentials(item: Item) -> str:
    given = _value(item, "spec.credentials")
    if not isinstance(given, Mapping):
        return ""
    if secret := given.get("secretRef"):
        return f"secret {_value(secret, 'name')}/{_value(secret, 'key')}"
    return " ".join(f"{kind} {_text(place)}" for kind, place in given.items())


def _versions(item: Item) -> str:
    versions = _value(item, "spec.versions")
    known = [one for one in versions if isinstance(one, Mapping)] if isinstance(versions, list) else []
    weights = [number(one.get("weight", 100)) for one in known]
    total = sum(weights) or 1.0
    words = []
    for one, weight in zip(known, weights, strict=True):
        share = f" {100 * weight / total:.3g}%" if len(known) > 1 else ""
        words.append(f"{one.get('name')}{share} → {one.get('backend')}")
    return ", ".join(words)


def _target(item: Item) -> str:
    target = _value(item, "spec.target")
    named = target if isinstance(target, Mapping) else {}
    words = [f"{name}={_text(value)}" for name, value in named.items() if value != ["*"]]
    return " ".join(words) or "all"


def _set_fields(item: Item) -> str:
    spec = _value(item, "spec")
    return ", ".join(name for name in spec if name != "target") if isinstance(spec, Mapping) else ""


def _changes(item: Item) -> str:
    changes = item.get("changes")
    told = short([one for one in changes if isinstance(one, Mapping)]) if isinstance(changes, list) else ""
    told = told or _text(item.get("detail"))
    back = item.get("rolledBackTo")
    return f"{told} (as revision {back})".strip() if back is not None else told


def _hint(item: Item) -> str:
    return f"…{_text(item.get('hint')).lstrip('…')}" if item.get("hint") else ""


def _state(item: Item) -> str:
    state, reason = _text(item.get("state")), _text(item.get("reason"))
    return f"{state}: {reason}" if reason else state


def sidecar_state(item: Item) -> str:
    """Return what a sidecar does with the policy, in a word."""
    if not item.get("connected"):
        return "disconnected"
    if item.get("nack"):
        return "refused"
    return "in force" if item.get("inForce") else "waiting"


def _acknowledged(item: Item) -> str:
    version = _text(item.get("acknowledged"))
    return "yes" if version and version == _text(item.get("pushed")) else version


def _actor(item: Item) -> str:
    role = _text(item.get("role"))
    return f"{_text(item.get('actor'))} ({role})" if role else _text(item.get("actor"))


def _audited(item: Item) -> str:
    named = _text(item.get("target")).split(", ")
    more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    return ", ".join(named[:SHOWN]) + more


def _outcome(item: Item) -> str:
    return ": ".join(part for part in (_text(item.get("outcome")), _text(item.get("detail"))) if part)


def _kept(name: str, written_as: Callable[[Any], str]) -> Callable[[Item], str]:
    return lambda item: written_as(item[name]) if item.get(name) else ""


def _saved_tokens(item: Item) -> str:
    names = ("saved.promptTokens", "saved.completionTokens")
    return grouped(sum(number(_value(item, name)) for name in names))


def _saved_cost(item: Item) -> str:
    cost = number(_value(item, "saved.cost"))
    return f"{cost:,.4f}" if cost else ""


def _when(name: str) -> Callable[[Item], str]:
    return lambda item: moment(item.get(name))


_NAME: Final[Column] = ("NAME", at("metadata.name"))
COLUMNS: Final[dict[str, tuple[Column, ...]]] = {
    "backends": (
        _NAME,
        ("URL", at("spec.url")),
        ("PROTOCOL", lambda item: _text(_value(item, "spec.protocol")) or "openai"),
        ("CREDENTIALS", _credentials),
        ("DEFAULT", at("spec.default")),
    ),
    "models": (
        _NAME,
        ("ALIASES", at("spec.aliases")),
        ("VERSIONS", _versions),
        ("FALLBACKS", at("spec.fallbacks")),
    ),
    "tiers": (
        _NAME,
        ("MATCH", at("spec.match.header")),
        ("REQUESTS/MIN", at("spec.limits.requestsPerMinute")),
        ("TOKENS/MIN", at("spec.limits.tokensPerMinute")),
        ("CONCURRENCY", at("spec.limits.concurrency")),
        ("PRIORITY", at("spec.priority")),
    ),
    "consumers": (_NAME, ("TENANT", at("spec.tenant")), ("TIER", at("spec.tier"))),
    "policies": (_NAME, ("TARGET", _target), ("SETS", _set_fields)),
    "releases": (
        _NAME,
        ("MODEL", at("spec.model")),
        ("FROM", at("spec.from")),
        ("TO", at("spec.to")),
        ("STEPS", at("spec.steps")),
        ("PHASE", at("status.phase")),
    ),
    "pins": (_NAME, ("MODEL", at("spec.model")), ("MATCH", at("spec.match")), ("ANSWER", at("spec.answer"))),
    "revisions": (
        ("REVISION", at("revision")),
        ("AT", _when("at")),
        ("ACTOR", at("actor")),
        ("ACTION", at("action")),
        ("STATE", _state),
        ("CHANGES", _changes),
    ),
    "audit": (
        ("ID", at("id")),
        ("AT", _when("at")),
        ("ACTOR", _actor),
        ("FROM", at("source")),
        ("ACTION", at("action")),
        ("TARGET", _audited),
        ("REVISION", at("revision")),
        ("OUTCOME", _outcome),
    ),
    "sidecars": (
        ("SIDECAR", at("id")),
        ("WORKLOAD", at("workload")),
        ("STATE", sidecar_state),
        ("PUSHED", at("pushed")),
        ("ACKNOWLEDGED", _acknowledged),
        ("ENVOY", lambda item: f"{_text(item.get('envoy'))} {_text(item.get('envoyVersion'))}".strip()),
        ("BUILD", at("build")),
        ("REFUSAL", at("nack")),
    ),
    "tokens": (
        ("ID", at("id")),
        ("NAME", at("name")),
        ("ROLE", at("role")),
        ("SCOPES", at("scopes")),
        ("CREATED", _when("createdAt")),
        ("EXPIRES", _when("expiresAt")),
        ("REVOKED", _when("revokedAt")),
    ),
    "keys": (
        ("ID", at("id")),
        ("CONSUMER", at("consumer")),
        ("KEY", _hint),
        ("CREATED", _when("createdAt")),
        ("EXPIRES", _when("expiresAt")),
        ("REVOKED", _when("revokedAt")),
    ),
    "secrets": (("NAME", at("name")), ("KEYS", at("keys")), ("CHANGED", _when("changedAt"))),
    "tiers of caches": (
        ("TIER", at("tier")),
        ("HITS", lambda item: grouped(item.get("hits"))),
        ("RATIO", lambda item: share(item.get("hitRatio"))),
        ("ENTRIES", _kept("entries", grouped)),
        ("SIZE", _kept("bytes", size)),
    ),
    "caches": (
        ("SIDECAR", at("sidecar")),
        ("WORKLOAD", at("workload")),
        ("STATE", lambda item: "connected" if item.get("connected") else "disconnected"),
        ("HITS", lambda item: grouped(item.get("hits"))),
        ("MISSES", lambda item: grouped(item.get("misses"))),
        ("RATIO", lambda item: share(item.get("hitRatio"))),
        ("SAVED TOKENS", _saved_tokens),
        ("SAVED COST", _saved_cost),
    ),
    "answers": (
        # Its beginning is enough to tell it apart; `-o json` has all of it.
        ("KEY", lambda item: _text(item.get("key"))[:SHOWN_DIGITS]),
        ("MODEL", at("model")),
        ("VERSION", at("version")),
        ("TENANT", at("tenant")),
        ("AGE", lambda item: span(item.get("ageSeconds"))),
        ("LEFT", lambda item: span(item.get("expiresInSeconds"))),
        ("SIZE", lambda item: size(item.get("bytes"))),
        ("HITS", lambda item: grouped(item.get("hits"))),
    ),
    "fields": (
        ("FIELD", at("field")),
        ("VALUE", lambda item: "" if item.get("value") is None else written(item["value"])),
        ("SET BY", at("policy")),
    ),
}
"""By the list's name; `keys` are of one Consumer, `fields` of an explanation, the rest of the cache."""
