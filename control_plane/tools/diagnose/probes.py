"""What is measured: the probes, in the order in which they run (pure)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Probe(StrEnum):
    """One kind of measurement. The value is what the user is shown while it runs."""

    FIRST = "first call"
    FRESH = "new connections"
    KEPT = "kept connections"
    HTTP2_FRESH = "HTTP/2, new"
    HTTP2_KEPT = "HTTP/2, kept"
    BURST_FRESH = "at once, new"
    BURST_KEPT = "at once, kept"
    HTTP2_BURST_FRESH = "at once, HTTP/2, new"
    HTTP2_BURST_KEPT = "at once, HTTP/2, kept"
    PROMPT = "prompt length"
    TEMPERATURE = "temperature"
    STREAM = "streams"
    PAUSE = "after a pause"


class Gap(StrEnum):
    """Why something has no reading."""

    NO_TLS = "the URL is http://, so there is no TLS to measure"
    NO_DNS = "the URL has an address, so no name is looked up"
    NO_HTTP2 = "the server speaks no HTTP/2 here"
    BUDGET = "the budget has no room for it, or it was stopped; raise --requests or --max-tokens"
    FAILED = "too many of its calls failed"
    ONE_AT_A_TIME = "--concurrency is 1"
    NO_TEMPERATURE = "the model takes no temperature"
    CUT = "the answers were cut by --answer-tokens, so their length says nothing"
    SAME_LENGTH = "all answers are about as long"
    NO_PAUSE = "only the first call was looked at; --pause 11m waits and calls once more"
    NOT_KEPT = "the server closes each connection after one answer"
    NO_USAGE = "the answers do not say how many tokens they are (usage)"
    NO_STREAM = "the server sends no stream of tokens"


BURST_PROBES: Final = {
    "1.1": (Probe.BURST_FRESH, Probe.BURST_KEPT),
    "2": (Probe.HTTP2_BURST_FRESH, Probe.HTTP2_BURST_KEPT),
}
HTTP2_PROBES: Final = (Probe.HTTP2_FRESH, Probe.HTTP2_KEPT, *BURST_PROBES["2"])
