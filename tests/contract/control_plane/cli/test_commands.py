"""Every command against the real API: registry on SQLite, real HTTP."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import yaml
from structlog.testing import capture_logs

from control_plane.auth.roles import Role
from control_plane.cli.kinds import LISTS
from control_plane.cli.main import main
from control_plane.resources.plurals import KIND_OF
from tests.contract.control_plane.api.served import ADMIN, Served, serve

Run = Callable[..., Awaitable[tuple[int, str, str]]]

DOCUMENTS = """\
kind: Backend
metadata: {name: b}
spec: {url: "http://h/v1", credentials: {secretRef: {name: openai, key: api-key}}}
---
kind: Model
metadata: {name: org/m}
spec: {versions: [{name: stable, backend: b}]}
---
kind: Tier
metadata: {name: gold}
spec: {priority: 10}
---
kind: Consumer
metadata: {name: team-a}
spec: {tenant: a, tier: gold}
---
kind: Policy
metadata: {name: p}
spec: {target: {models: ["org/*"]}, cache: {enabled: true, ttl: 1h}}
"""


@pytest.fixture
async def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """An API over an empty database; commands of the test find it by their variables."""
    with capture_logs():
        async with serve(tmp_path / "data") as found:
            monkeypatch.setenv("OUTRIGGER_SERVER", found.url)
            monkeypatch.setenv("OUTRIGGER_TOKEN", ADMIN)
            yield found


@pytest.fixture
def run(served: Served, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line beside the API; returns exit status, stdout and stderr."""

    def call(arguments: tuple[str, ...]) -> int:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        return int(ended.value.code or 0)

    async def done(*arguments: str) -> tuple[int, str, str]:
        status = await asyncio.to_thread(call, arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return done


@pytest.fixture
async def file(run: Run, tmp_path: Path) -> str:
    """A file of documents that is applied."""
    (tmp_path / "p.yaml").write_text(DOCUMENTS)
    status, out, _ = await run("apply", "-f", str(tmp_path / "p.yaml"))
    assert (status, out.splitlines()[-1]) == (0, "revision 1: 5 created")
    return str(tmp_path / "p.yaml")


async def test_every_list_is_shown(served: Served, run: Run, file: str) -> None:
    """As a table with its rows, and in JSON to the letter."""
    await run("token", "create", "--role", "viewer")
    async with served.client() as api:
        for plural in (*KIND_OF, *LISTS):
            text = (await api.get(f"/api/v1/{plural}")).text
            assert await run("get", plural, "-o", "json") == (0, text + "\n", "")
            status, out, err = await run("get", plural)
            count = len(json.loads(text)["items"])
            assert status == 0
            assert len(out.splitlines()) == (count + 1 if count else 0), out
            assert err == ("" if count else f"no {plural}\n")


async def test_what_is_shown_can_be_applied_again(run: Run, file: str, tmp_path: Path) -> None:
    """YAML of one document or all of a kind changes nothing; so does the file itself."""
    for arguments in (("models",), ("models", "org/m"), ("policies",)):
        _, out, _ = await run("get", *arguments, "-o", "yaml")
        (tmp_path / "again.yaml").write_text(out)
        assert await run("diff", "-f", str(tmp_path / "again.yaml")) == (0, "", "")
    status, out, _ = await run("apply", "-f", file, "--wait")
    assert (status, out) == (0, "revision 1: 5 unchanged\n")


async def test_a_change_its_history_and_the_way_back(run: Run, file: str, tmp_path: Path) -> None:
    """Seen before, made, looked at afterwards, undone."""
    (tmp_path / "change.yaml").write_text(DOCUMENTS.replace("ttl: 1h", "ttl: 2h").partition("---")[2])
    status, shown, _ = await run("diff", "-f", str(tmp_path / "change.yaml"))
    lines = ["~ Policy/p", "  - spec.cache.ttl: 1h", "  + spec.cache.ttl: 2h"]
    assert (status, shown.splitlines()) == (1, lines)
    _, out, _ = await run("apply", "-f", str(tmp_path / "change.yaml"), "--dry-run")
    assert out.splitlines()[:-1] == lines
    assert (await run("apply", "-f", str(tmp_path / "change.yaml")))[0] == 0
    assert (await run("history", "--diff", "2"))[1] == shown
    _, out, _ = await run("explain", "--model", "org/m")
    assert ["cache.ttl", "2h", "p"] in [line.split() for line in out.splitlines()]
    _, out, _ = await run("rollback", "1")
    assert out.splitlines()[-1] == "revision 3, as revision 1 was: 1 updated"
    _, out, _ = await run("history", "policies", "p", "-o", "json")
    assert [item["revision"] for item in json.loads(out)["items"]] == [3, 2, 1]
    assert (await run("status"))[1] == "revision 3; no sidecar is connected\n"


async def test_refusals_are_sentences(run: Run, file: str, tmp_path: Path) -> None:
    """With file and line, users, what is missing; status 1 and nothing on stdout."""
    bad = tmp_path / "bad.yaml"
    bad.write_text(DOCUMENTS.replace("backend: b}", "backend: c}").replace("tier: gold", "teir: gold"))
    for arguments, words in (
        (("apply", "-f", str(bad)), f"{bad}:15: Consumer/team-a: spec.teir: "),
        (("diff", "-f", str(bad)), 'did you mean "tier"?'),
        (("delete", "tiers", "gold"), "Consumer/team-a: spec.tier: "),
        (("delete", "tiers", "silver"), "Tier/silver does not exist"),
        (("get", "models", "m"), "Model/m does not exist"),
        (("rollback", "99"), "revision 99 does not exist"),
        (("history", "--diff", "99"), "does not exist"),
        (("key", "create", "team-b"), "Consumer/team-b does not exist"),
        (("key", "revoke", "team-a", "k"), "does not exist"),
        (("token", "revoke", "t"), "does not exist"),
        (("token", "create", "--role", "viewer", "--scope", "model:read"), "models:read"),
        (("secret", "delete", "openai"), "does not exist"),
    ):
        status, out, err = await run(*arguments)
        assert (status, out) == (1, ""), arguments
        assert err.startswith("outrigger: ")
        assert words in err
        assert "Traceback" not in err


async def test_keys_tokens_and_secrets(
    served: Served, run: Run, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made, listed, rotated, ended; what is secret is on stdout once and nowhere else."""
    _, key, _ = await run("key", "create", "team-a", "--expires", "90d")
    (key_id,) = (
        item["id"] for item in json.loads((await run("key", "list", "team-a", "-o", "json"))[1])["items"]
    )
    _, newer, _ = await run("key", "rotate", "team-a", key_id, "--overlap", "1h")
    assert (await run("key", "revoke", "team-a", key_id))[0] == 0
    _, listed, _ = await run("key", "list", "team-a")
    assert len(listed.splitlines()) == 3
    for secret in (key.strip(), newer.strip()):
        assert secret.startswith("ork_")
        assert secret not in listed

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"sk-marker\n")))
    assert (await run("secret", "set", "openai", "api-key"))[0] == 0
    assert (await run("secret", "rotate"))[0] == 0
    _, listed, _ = await run("secret", "list")
    assert listed.splitlines()[1].split()[:2] == ["openai", "api-key"]
    status, _, err = await run("secret", "delete", "openai")
    assert (status, "Backend/b" in err) == (1, True)
    assert "sk-marker" not in listed + err

    _, token, _ = await run("token", "create", "--role", "viewer", "--name", "v", "--expires", "1d")
    monkeypatch.setenv("OUTRIGGER_TOKEN", token.strip())
    assert (await run("get", "models"))[0] == 0
    status, _, err = await run("apply", "-f", file)
    assert (status, "editor" in err) == (1, True)
    monkeypatch.setenv("OUTRIGGER_TOKEN", ADMIN)
    assert (await run("token", "revoke", token.split("_")[1]))[0] == 0
    monkeypatch.setenv("OUTRIGGER_TOKEN", token.strip())
    assert await run("get", "models") == (
        1,
        "",
        "outrigger: the token is refused; check OUTRIGGER_TOKEN or --token-file\n",
    )


async def test_yaml_is_what_the_api_answers(run: Run, file: str) -> None:
    """For what is no document."""
    _, text, _ = await run("history", "-o", "json")
    _, out, _ = await run("history", "-o", "yaml")
    assert yaml.safe_load(out) == json.loads(text)


@pytest.mark.parametrize("role", [Role.SIDECAR])
async def test_a_sidecars_token_sees_nothing(
    role: Role, served: Served, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It joins the push stream only."""
    monkeypatch.setenv("OUTRIGGER_TOKEN", await served.token(role))
    assert (await run("get", "models"))[0] == 1
