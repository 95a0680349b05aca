"""Keys, tokens and passwords in a text, by their usual beginnings and the names before them (pure)."""

from __future__ import annotations

import re
from typing import Final

from ext_proc.redaction.findings import Span

_KEYS: Final = re.compile(
    r"""
      (?i:\bauthorization\\?["']?\s*[:=]\s*\\?["']?(?:bearer|basic)\s+)(?P<sent>[A-Za-z0-9._~+/=-]{6,})
    | (?i:\bbearer\s+)(?P<bearer>[A-Za-z0-9._~+/=-]{6,})
    | (?i:\bbasic\s+)(?P<basic>[A-Za-z0-9+/]{12,}={0,2})
    | ://[^\s/@:"']*:(?P<url>[^\s/@"']+)@
    | (?i:(?<![a-z])(?:authorization|(?:x-)?api[-_]?key|passw(?:or)?d|client[-_]secret|access[-_]token))
      \\?["']?\s*[:=]\s*\\?["']?
      (?!(?i:bearer|basic)\s)(?P<named>(?=[^\s"',;&}\\]{0,512}\d|[^\s"',;&}\\]{16})[^\s"',;&}\\]{6,})
    | (?<![A-Za-z0-9])(?P<token>
          sk-(?:[A-Za-z0-9_-]*\d[A-Za-z0-9_-]{2,}|[A-Za-z0-9_-]{16,})
        | or[kt]_[A-Za-z0-9_-]{4,}
        | (?:[prs]k_(?:live|test)|gh[pousr]|github_pat|glpat|gsk|hf|xai|npm|pypi)[_-][A-Za-z0-9_-]{16,}
        | xox[abeprs]-[A-Za-z0-9-]{10,}
        | AIza[A-Za-z0-9_-]{30,}
        | A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])
        | eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]*
        | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----(?:.*?-----END\ [A-Z ]*PRIVATE\ KEY-----|.*)
      )
    """,
    re.VERBOSE | re.DOTALL,
)
_PERHAPS_PROSE: Final = frozenset(("bearer", "basic"))
_WORD: Final = re.compile(r"[A-Z]?[a-z.]{0,15}(?:[-/=][a-z.]{0,15})*")
# Each beginning of `_KEYS` holds one of these, at most so many characters from its start. Looking for them
# first spares texts its many branches.
_HINTS: Final = (
    *("bearer", "basic", "://", "authorization", "key", "passw", "secret", "token", "aiza", "akia", "asia"),
    "eyj",
)
# Only where a text has one of these signs.
_HINTS_WITH_SIGN: Final = {
    "_": (
        *("k_live", "k_test", "ork_", "ort_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat"),
        *("glpat_", "gsk_", "hf_", "xai_", "npm_", "pypi_"),
    ),
    "-": (
        *("sk-", "ghp-", "gho-", "ghu-", "ghs-", "ghr-", "glpat-", "gsk-", "hf-", "xai-", "npm-", "pypi-"),
        *("xox", "-----begin"),
    ),
}
_HINT_AT_MOST: Final = 7
_UPPER: Final = re.compile(r"[A-Z]+")


def key_spans(text: str, *, words: bool) -> list[Span]:
    """Return where keys are, in order. `words`: also a word behind "bearer" or "basic", perhaps prose."""
    spans: list[Span] = []
    at = 0
    for hint in _hints(text):
        for start in range(max(at, hint - _HINT_AT_MOST), hint + 1):
            match = _KEYS.match(text, start)
            if match is not None:
                at = match.end()
                name = match.lastgroup or ""
                if words or name not in _PERHAPS_PROSE or _WORD.fullmatch(match[name]) is None:
                    spans.append(match.span(name))
                break
    return spans


def _hints(text: str) -> list[int]:
    lowered = text.lower()
    if len(lowered) != len(text):
        # A letter became two: positions have to hold.
        lowered = _UPPER.sub(lambda match: match.group().lower(), text)
    hints = [*_HINTS]
    for sign, more in _HINTS_WITH_SIGN.items():
        if sign in lowered:
            hints += more
    found: list[int] = []
    for hint in hints:
        at = lowered.find(hint)
        while at >= 0:
            found.append(at)
            at = lowered.find(hint, at + 1)
    found.sort()
    return found
