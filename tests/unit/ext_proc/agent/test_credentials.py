"""Tests of how references become keys."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import structlog
from structlog.testing import CapturingLogger

from ext_proc.agent.credentials import MAX_BYTES, Credentials, read_authorities
from ext_proc.contract.snapshot import CredentialRef


def credentials(folder: Path, **environment: str) -> tuple[Credentials, CapturingLogger]:
    """Return a resolver and what it tells its log."""
    log = CapturingLogger()
    return Credentials(environment, folder, structlog.wrap_logger(log, processors=[])), log


def test_each_kind_is_found(tmp_path: Path) -> None:
    """Variables, files and mounted Secrets each give their key, without the white space around it."""
    (tmp_path / "openai").mkdir()
    (tmp_path / "openai" / "key").write_text("from-secret\n")
    (tmp_path / "file").write_text("  from-file \r\n")
    resolver, log = credentials(tmp_path, KEY="from-env")
    references = {
        CredentialRef("env", "KEY"): "from-env",
        CredentialRef("file", str(tmp_path / "file")): "from-file",
        CredentialRef("secret", "openai", "key"): "from-secret",
    }
    assert resolver.resolve(references) == references
    assert log.calls == []


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [
        (CredentialRef("env", "NONE"), "the variable NONE is not set"),
        (CredentialRef("env", "BLANK"), "the variable BLANK is empty"),
        (CredentialRef("env", "SPLIT"), "holds characters that no header may hold"),
        (CredentialRef("file", "/no/such/file"), "the file /no/such/file is not there"),
        (CredentialRef("secret", "s", "k"), "s/k is not there"),
        (CredentialRef("file", "/"), "the file / cannot be read"),
    ],
)
def test_missing_key_is_told_once(tmp_path: Path, reference: CredentialRef, sentence: str) -> None:
    """A reference without a usable key has none, and is told in one sentence, once, without its value."""
    resolver, log = credentials(tmp_path, BLANK=" ", SPLIT="sk-secret\nx-injected: 1")
    assert resolver.resolve([reference]) == {}
    assert resolver.resolve([reference]) == {}
    (call,) = log.calls
    assert sentence in str(call.kwargs)
    assert "sk-secret" not in str(call)


def test_a_file_that_never_ends_or_never_answers_holds_nobody_up(tmp_path: Path) -> None:
    """A device, a pipe without a writer and a huge file are no keys; the others are found all the same."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "huge").write_bytes(b"k" * (MAX_BYTES + 1))
    (tmp_path / "good").write_text("k")
    resolver, log = credentials(tmp_path)
    names = ("/dev/zero", str(tmp_path / "pipe"), str(tmp_path / "huge"), str(tmp_path / "good"))
    assert resolver.resolve([CredentialRef("file", name) for name in names]) == {
        CredentialRef("file", str(tmp_path / "good")): "k"
    }
    told = repr(log.calls)
    assert told.count("is no regular file") == 2
    assert told.count("is too large for a key") == 1


def test_what_is_the_sidecars_own_is_no_providers_key(tmp_path: Path) -> None:
    """Neither its token's variable nor its token's file, however the path is spelled, goes to a Backend."""
    (tmp_path / "token").write_text("ort_own")
    (tmp_path / "link").symlink_to(tmp_path / "token")
    log = CapturingLogger()
    resolver = Credentials(
        {"OUTRIGGER_TOKEN": "ort_own", "KEY": "k"},
        tmp_path,
        structlog.wrap_logger(log, processors=[]),
        withheld={"OUTRIGGER_TOKEN", tmp_path / "token"},
    )
    own = [
        CredentialRef("env", "OUTRIGGER_TOKEN"),
        CredentialRef("file", str(tmp_path / "token")),
        CredentialRef("file", str(tmp_path / "link")),
        CredentialRef("secret", ".", "token"),
    ]
    other = CredentialRef("env", "KEY")
    assert resolver.resolve([*own, other]) == {other: "k"}
    assert repr(log.calls).count("is the sidecar's own") == len(own)
    assert "ort_own" not in repr(log.calls)


def test_key_that_comes_later_is_found(tmp_path: Path) -> None:
    """A file that appears is read at the next call; gone again, it is told again."""
    reference = CredentialRef("file", str(tmp_path / "key"))
    resolver, log = credentials(tmp_path)
    assert resolver.resolve([reference]) == {}
    (tmp_path / "key").write_text("k")
    assert resolver.resolve([reference]) == {reference: "k"}
    (tmp_path / "key").unlink()
    assert resolver.resolve([reference]) == {}
    assert len(log.calls) == 2


def test_authorities_are_the_named_file_or_the_first_usual_one(tmp_path: Path) -> None:
    """A named file must be there; without a name the first usual one that exists counts."""
    usual = tmp_path / "usual.pem"
    usual.write_bytes(b"usual")
    named = tmp_path / "named.pem"
    with pytest.raises(FileNotFoundError, match=r"named\.pem.*OUTRIGGER_CA_FILE"):
        read_authorities(named, [usual])
    named.write_bytes(b"named")
    assert read_authorities(named, [usual]) == b"named"
    assert read_authorities(None, [tmp_path / "none", usual]) == b"usual"
    with pytest.raises(FileNotFoundError):
        read_authorities(None, [])


def test_a_pushed_secret_beats_a_mounted_one(tmp_path: Path) -> None:
    """And is gone when the next push does not bring it; what was held before is given back."""
    (tmp_path / "openai").mkdir()
    (tmp_path / "openai" / "key").write_text("mounted")
    resolver, log = credentials(tmp_path)
    reference = CredentialRef("secret", "openai", "key")
    pushed = {("openai", "key"): b" pushed\n"}
    assert resolver.replace(pushed) == {}
    assert resolver.resolve([reference]) == {reference: "pushed"}
    assert resolver.replace({}) is pushed
    assert resolver.resolve([reference]) == {reference: "mounted"}
    assert log.calls == []


@pytest.mark.parametrize("value", [b"", b"sk-\xff\xfe", b"sk-a\r\nx: 1"])
def test_a_pushed_secret_that_no_header_can_hold_is_none(tmp_path: Path, value: bytes) -> None:
    """It is told by its name."""
    resolver, log = credentials(tmp_path)
    resolver.replace({("openai", "key"): value})
    assert resolver.resolve([CredentialRef("secret", "openai", "key")]) == {}
    assert "the Secret openai, key key" in repr(log.calls)
    assert "sk-" not in repr(log.calls)
