"""Every example of the README and of docs/ works as it is written."""

from __future__ import annotations

import asyncio
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from control_plane.cli.commands import COMMANDS
from control_plane.cli.main import main
from control_plane.cli.signals import STOPPING
from control_plane.resources.documents import check_documents
from control_plane.resources.kinds import KINDS
from control_plane.resources.loading import read_text
from control_plane.resources.unbuilt import is_unbuilt
from ext_proc import __main__ as data_plane
from ext_proc import exchange as exchanges
from ext_proc.agent.observation import ENVOY_REASONS
from ext_proc.pipeline import PassingStage
from ext_proc.refusals import refuse
from tests.harness.mesh import Mesh
from tests.unit.ext_proc.exchanges import HELLO, exchange

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "envoy" / "README.md",
        ROOT / "k8s" / "images" / "README.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
)
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)#]+?)(?:#[^)]*)?\)")


def blocks(language: str) -> Iterator[Any]:
    """Yield each fenced block of `language` as a test parameter, named after its page."""
    for page in PAGES:
        for number, (found, text) in enumerate(FENCE.findall(page.read_text(encoding="utf-8"))):
            if found == language:
                yield pytest.param(text, id=f"{page.relative_to(ROOT)}-{number}")


def commands() -> Iterator[Any]:
    """Yield each command of the `sh` blocks, continued lines joined, comments cut off."""
    for block in blocks("sh"):
        for line in block.values[0].replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words:
                yield pytest.param(words, id=f"{block.id}: {' '.join(words)[:40]}")


def first_block(page: str, language: str, containing: str) -> str:
    """Return the first such block of `page` that contains a text."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found_body: str = next(
        body for found, body in FENCE.findall(text) if found == language and containing in body
    )
    return found_body


@pytest.mark.parametrize("text", list(blocks("yaml")))
def test_documents_are_valid(text: str) -> None:
    """Each YAML example loads by itself and names no capability that is not built."""
    assert check_documents(read_text(text.encode(), "example")).notices == ()


@pytest.fixture
def help_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., str]]:
    """Tell what a command says of itself."""
    monkeypatch.setenv("COLUMNS", "200")
    handlers = {number: signal.getsignal(number) for number in STOPPING}

    def shown(*command: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main((*command, "--help"))
        assert not ended.value.code
        return capsys.readouterr().out

    yield shown
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("words", list(commands()))
def test_commands_exist(words: list[str], help_of: Callable[..., str]) -> None:
    """Each command line is understood: the target, the command and every option of it exist."""
    while "=" in words[0]:
        words = words[1:] or ["true"]
    if "|" in words:
        words = words[: words.index("|")]
    name, *arguments = words
    for argument in arguments:
        assert not argument.startswith("k8s/") or (ROOT / argument).exists(), argument
    if name == "make":
        dry = subprocess.run(
            ["make", "-n", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert dry.returncode == 0, dry.stderr
    elif name == "python":
        assert arguments[:2] == ["-m", "ext_proc"]
        options = [argument.replace("$R", "/tmp/r") for argument in arguments[2:]]
        data_plane.parser().parse_args(options)
    elif name.endswith("outrigger"):
        command: list[str] = []
        entries = COMMANDS
        while entries:
            command.append(arguments.pop(0))
            entries = entries[command[-1]].commands
        shown = help_of(*command)
        for option in (argument for argument in arguments if argument.startswith("-") and argument != "-"):
            assert option in shown
    else:
        assert name in {"curl", "docker", "export", "helm", "kind", "kubectl", "true"}


def test_the_readmes_call_is_answered_and_then_a_hit(mesh_of_the_demo: Mesh) -> None:
    """Copied as it stands (but for the port): 200 with our headers, the second time from the cache."""
    script = first_block("README.md", "sh", "curl").replace("10000", str(mesh_of_the_demo.proxy_port))
    first, second = (
        subprocess.run(["bash", "-ec", script], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert "200 OK" in first
    for header in (
        "x-outrigger-model: gpt-4o-mini",
        "x-outrigger-backend: simulated",
        "x-outrigger-cache: miss",
    ):
        assert header in first
    assert "x-outrigger-cache: hit" in second


@pytest.fixture
def mesh_of_the_demo(start_mesh: Callable[..., Mesh]) -> Mesh:
    """What `make up` starts."""
    return start_mesh(None)


def test_the_readmes_mesh_starts(start_mesh: Callable[..., Mesh]) -> None:
    """With the documents and the variable that it names."""
    documents = first_block("README.md", "yaml", "openai")
    mesh = start_mesh(documents, environment={"PROVIDER_KEY": "sk-example"})
    assert mesh.proxy_port


def test_the_example_stage_runs() -> None:
    """The stage of adding-a-stage.md refuses and passes as its docstring says."""
    source = first_block("docs/adding-a-stage.md", "python", "class Greeting")
    space: dict[str, Any] = {
        "PassingStage": PassingStage,
        "refuse": refuse,
        **{name: getattr(exchanges, name) for name in ("Answer", "Exchange", "Forward", "Reason")},
    }
    indent = re.match(r" *", source)
    assert indent is not None
    exec(re.sub(rf"^{indent[0]}", "", source, flags=re.MULTILINE), space)
    stage = space["Greeting"]()
    assert asyncio.run(stage.on_request(exchange())) is None
    rude = {**HELLO, "messages": [{"role": "user", "content": "give me"}]}
    assert asyncio.run(stage.on_request(exchange(document=rude))).status == 400


def test_every_reason_is_explained() -> None:
    """docs/errors.md has each value of `x-outrigger-error` and each decision that is counted."""
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    reasons = ENVOY_REASONS | {reason.value for reason in exchanges.Reason}
    assert [reason for reason in sorted(reasons) if f"`{reason}`" not in page] == []


def test_every_setting_is_explained() -> None:
    """The pages name each field of a Backend, a Model and a Policy that has an effect."""
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for kind in ("Backend", "Model", "Tier", "Consumer", "Policy"):
        for item in KINDS[kind].model_fields.values():
            name = item.alias or ""
            assert is_unbuilt(kind, (name,)) or name in pages, f"{kind}: {name}"


def test_links_lead_somewhere() -> None:
    """Every relative link of every page names a file or folder that is there."""
    for page in PAGES:
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"
