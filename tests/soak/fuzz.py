"""`python -m tests.soak.fuzz [--target NAME]… [--minutes M]`: parsers fed with what nobody would send.

With atheris (`pip install atheris`) new input is made from what reached new code before; without it, from
examples by chance alone. Without `--target` each parser has its minutes, two at a time. What makes one fail
is kept as a file below `--output`, and is tried again by `--again FILE`.
"""

from __future__ import annotations

import argparse
import importlib
import random
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

TARGETS_MODULE: Final = "tests.soak.fuzz_targets"
NAMES: Final = (
    "sse", "requests", "chunks", "splices", "answers", "hints", "attempts", "batches", "redaction", "http2",
    "stores", "push", "documents", "paths",
)  # fmt: skip
LONGEST: Final = 2048
AT_ONCE: Final = 2
MUTATIONS: Final = 6


def main() -> int:
    """Fuzz; return 1 when something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.fuzz", description=__doc__)
    parser.add_argument("--target", action="append", choices=NAMES, default=[])
    parser.add_argument("--minutes", type=float, default=10.0, help="For each of them.")
    parser.add_argument("--output", type=Path, default=Path(".soak/fuzz"))
    parser.add_argument("--again", type=Path, help="Try this file again.")
    parser.add_argument("--chance", action="store_true", help="Without atheris, even if it is there.")
    options = parser.parse_args()
    names = options.target or list(NAMES)
    if options.again is not None:
        _targets()[names[0]].check(options.again.read_bytes())
        return 0
    if len(names) > 1:
        with ThreadPoolExecutor(AT_ONCE) as running:
            return max(running.map(lambda name: _apart(name, options), names))
    folder: Path = options.output / names[0]
    folder.mkdir(parents=True, exist_ok=True)
    if not options.chance:
        try:
            atheris = importlib.import_module("atheris")
        except ImportError:
            print("atheris is not installed; input is made by chance alone", flush=True)
        else:
            return _by_coverage(atheris, names[0], options.minutes * 60, folder)
    return _by_chance(names[0], options.minutes * 60, folder)


def _targets() -> dict[str, Any]:
    return dict(importlib.import_module(TARGETS_MODULE).TARGETS)


def _apart(name: str, options: argparse.Namespace) -> int:
    command = [sys.executable, "-m", "tests.soak.fuzz", "--target", name, "--minutes", str(options.minutes)]
    command += ["--output", str(options.output), *(("--chance",) if options.chance else ())]
    log = options.output / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        status = subprocess.run(command, check=False, stdout=output, stderr=output).returncode
    last = [line for line in log.read_text(errors="replace").splitlines() if line.strip()][-1:]
    found = "nothing found" if status == 0 else f"FOUND SOMETHING, see {log}"
    print(f"{name}: {found} ({' '.join(last)})", flush=True)
    return int(status != 0)


def _by_coverage(atheris: Any, name: str, seconds: float, folder: Path) -> int:
    """Hand over to libFuzzer, which ends the process."""
    # https://github.com/google/atheris: modules have to be instrumented while they are loaded.
    with atheris.instrument_imports(include=["ext_proc", "control_plane"]):
        target = _targets()[name]
    corpus, dictionary = folder / "corpus", folder / "words"
    corpus.mkdir(exist_ok=True)
    for example in target.examples:
        (corpus / sha256(example).hexdigest()[:16]).write_bytes(example)
    lines = ('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"' for word in target.words)
    dictionary.write_text("\n".join(lines) + "\n")
    arguments = [sys.argv[0], str(corpus), f"-dict={dictionary}", f"-artifact_prefix={folder}/"]
    arguments += [f"-max_total_time={int(seconds)}", f"-max_len={LONGEST}", "-timeout=20"]
    arguments += ["-print_final_stats=1", "-verbosity=0", "-rss_limit_mb=2048"]
    atheris.Setup(arguments, target.check)
    atheris.Fuzz()
    return 0


def _by_chance(name: str, seconds: float, folder: Path) -> int:
    target = _targets()[name]
    chance = random.Random(name)
    kept = list(target.examples)
    ending = time.monotonic() + seconds
    tried = 0
    while time.monotonic() < ending:
        data = mutated(chance.choice(kept), target.words, chance)
        tried += 1
        if not _holds(target.check, data, folder):
            return 1
        if chance.random() < 0.02 and len(kept) < 4096:
            kept.append(data)
    print(f"{name}: {tried:,} inputs tried")
    return 0


def _holds(check: Callable[[bytes], None], data: bytes, folder: Path) -> bool:
    try:
        check(data)
    except Exception:
        path = folder / f"crash-{sha256(data).hexdigest()[:16]}"
        path.write_bytes(data)
        traceback.print_exc()
        print(f"kept in {path}")
        return False
    return True


def mutated(data: bytes, words: Sequence[bytes], chance: random.Random) -> bytes:
    """Return `data` changed in a few places: bytes and words put in, taken out, doubled, moved."""
    out = bytearray(data)
    for _ in range(chance.randint(1, MUTATIONS)):
        at, other = chance.randint(0, len(out)), chance.randint(0, len(out))
        first, last = min(at, other), min(max(at, other), min(at, other) + 64)
        match chance.randrange(7):
            case 0:
                out[at:at] = bytes([chance.randrange(256)])
            case 1 if words:
                out[at:at] = chance.choice(words)
            case 2:
                del out[first:last]
            case 3:
                out[at:at] = out[first:last]
            case 4 if out:
                place = chance.randrange(len(out))
                out[place] ^= 1 << chance.randrange(8)
            case 5 if words:
                word = chance.choice(words)
                out[at : at + len(word)] = word
            case _:
                del out[at:]
    return bytes(out[:LONGEST])


if __name__ == "__main__":
    sys.exit(main())
