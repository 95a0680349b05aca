"""Structured logs: one JSON object a line on stderr, without personal data, keys or control characters.

Every logger of the process ends here, those of libraries (grpc, asyncio, uvicorn, hypercorn) too. What is
written is bounded, redacted and escaped last, so that no caller can forget to. Prompts and keys have no
field: a field that is named like one is emptied.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
import traceback
from collections.abc import Mapping, MutableMapping
from types import TracebackType
from typing import Any, BinaryIO, Final

import structlog
from structlog.typing import EventDict, WrappedLogger

from ext_proc.redaction.detectors import redact

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
MAX_TEXT: Final = 2_000
MAX_TRACEBACK: Final = 8_000
MAX_ITEMS: Final = 50
MAX_DEPTH: Final = 4
_EMPTIED: Final = re.compile(
    r"(?:.*[_-])?(?:authorization|api[_-]?key|password|passwd|secret|credentials?|prompt|messages|content|body"
    r"|headers|cookie)",
    re.IGNORECASE,
)
# C0 but newline and tab (JSON escapes those), DEL, C1, line separators, and marks that turn text around.
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
# pydantic quotes the value it refuses, which may be a prompt.
_QUOTED_INPUT: Final = re.compile(r"input_value=.*?, input_type=", re.DOTALL)


def configure_logging(process: str, level: str = "info", stream: BinaryIO | None = None) -> None:
    """Send every log record of this process to `stream` (default: stderr) as redacted JSON lines.

    Call it once, first thing in a process: it also quiets grpc's own text on stderr, which is decided when
    grpc is loaded, and takes over uncaught exceptions and warnings.

    Args:
        process: what this process is (`processor-0`, `agent`); the field `process` of every line.
        level: `debug`, `info`, `warning` or `error`. Below it, a call on a structlog logger costs next to
            nothing.
        stream: where the lines go.

    Raises:
        ValueError: `level` is none of these.
    """
    if level not in LEVELS:
        raise ValueError(f"log level {level!r} is none of {', '.join(LEVELS)}")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    lines = LineWriter(stream if stream is not None else sys.stderr.buffer)
    shape = _Shape(process)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            shape,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=lambda *_: lines,
        cache_logger_on_first_use=True,
    )
    _route_stdlib(lines, shape, LEVELS[level])
    _route_uncaught(structlog.get_logger("uncaught"))


class LineWriter:
    """The end of every log line: whole lines, one write each, never an exception for whoever logs."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def msg(self, line: bytes) -> None:
        """Write one line. A reader that went away loses it."""
        try:
            with self._lock:
                self._stream.write(line + b"\n")
                self._stream.flush()
        except (OSError, ValueError):
            # Nowhere is left to report it.
            return

    debug = info = warning = error = critical = exception = log = msg


class _Shape:
    """The last processor of structlog's chain: an event becomes one line of bytes."""

    def __init__(self, process: str) -> None:
        self._process = process

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> bytes:
        exc_info = event.pop("exc_info", None)
        line: dict[str, Any] = {
            "time": event.pop("time", ""),
            "level": event.pop("level", method),
            "process": self._process,
            "event": clean(event.pop("event", "")),
        }
        for name, value in event.items():
            line[_text(str(name), 100)] = "[removed]" if _EMPTIED.fullmatch(str(name)) else clean(value)
        if exc_info:
            line["exception"] = render_exception(exc_info)
        text = json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=str)
        return text.encode("utf-8", "backslashreplace")


def clean(value: object, depth: int = 0) -> Any:
    """Return `value` fit for a log line: bounded in size and depth, every text in it redacted and escaped."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        # A number may be a telephone number.
        return value if abs(value) < 1_000_000 else _number(value)
    if isinstance(value, str):
        return _text(value, MAX_TEXT)
    if depth < MAX_DEPTH and isinstance(value, Mapping):
        return {
            _text(str(name), 100): "[removed]" if _EMPTIED.fullmatch(str(name)) else clean(item, depth + 1)
            for name, item in list(value.items())[:MAX_ITEMS]
        }
    if depth < MAX_DEPTH and isinstance(value, list | tuple | set | frozenset):
        return [clean(item, depth + 1) for item in list(value)[:MAX_ITEMS]]
    if isinstance(value, bytes | bytearray | memoryview):
        return f"[{len(value)} bytes]"
    if isinstance(value, BaseException):
        return _text(_QUOTED_INPUT.sub("input_type=", f"{type(value).__name__}: {value}"), MAX_TEXT)
    return _text(str(value), MAX_TEXT)


def render_exception(exc_info: object) -> str:
    """Return the traceback as one redacted text without local variables; its end is kept when it is long.

    Args:
        exc_info: an exception, the triple of `sys.exc_info()`, or True for the one being handled.
    """
    if isinstance(exc_info, BaseException):
        exception: BaseException | None = exc_info
    elif isinstance(exc_info, tuple) and len(exc_info) == 3:
        exception = exc_info[1]
    else:
        exception = sys.exc_info()[1]
    if exception is None:
        return ""
    text = "".join(traceback.TracebackException.from_exception(exception, limit=-20, compact=True).format())
    text = _QUOTED_INPUT.sub("input_type=", text)
    return _escape(redact(text[-MAX_TRACEBACK:]))


def _number(value: int) -> int | str:
    # Python refuses to print integers of more digits than this by default (sys.set_int_max_str_digits).
    if abs(value) >= 10**100:
        return "[large number]"
    text = redact(str(value))
    return value if text == str(value) else text


def _text(text: str, limit: int) -> str:
    # The cut comes last but for a bound on the work: a cut number would no longer be found.
    whole = _escape(redact(text[: limit * 4]))
    return whole if len(whole) <= limit else whole[:limit] + "…"


def _escape(text: str) -> str:
    return _CONTROLS.sub(lambda match: f"\\x{ord(match.group()):02x}", text)


def _route_stdlib(lines: LineWriter, shape: _Shape, level: int) -> None:
    handler = _StdlibHandler(lines, shape)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(level, logging.INFO))
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "hypercorn.error", "hypercorn.access"):
        library = logging.getLogger(name)
        library.handlers, library.propagate = [], True
    # A line for each of the agent's looks at Envoy says nothing.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    # Nor do three lines at each start about a database that needs no migration.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    logging.captureWarnings(True)


class _StdlibHandler(logging.Handler):
    """Records of libraries, written as the same lines, so that nothing passes unredacted."""

    def __init__(self, lines: LineWriter, shape: _Shape) -> None:
        super().__init__()
        self._lines = lines
        self._shape = shape
        self._stamp = structlog.processors.TimeStamper(fmt="iso", utc=True, key="time")

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; a record that cannot be formatted is written as its format."""
        try:
            message = record.getMessage()
        except (TypeError, ValueError, KeyError):
            message = str(record.msg)
        event: MutableMapping[str, Any] = {
            "event": message,
            "level": record.levelname.lower(),
            "logger": record.name,
            "exc_info": record.exc_info,
        }
        method = record.levelname.lower()
        self._lines.msg(self._shape(None, method, self._stamp(None, method, event)))


def _route_uncaught(log: Any) -> None:
    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            return
        log.error("uncaught exception", exc_info=(kind, error, trace))

    def thread_hook(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None:
            log.error("uncaught exception in a thread", exc_info=args.exc_value)

    def unraisable_hook(args: Any) -> None:
        if args.exc_value is not None:
            log.error("exception that could not be raised", exc_info=args.exc_value)

    sys.excepthook = hook
    threading.excepthook = thread_hook
    sys.unraisablehook = unraisable_hook
