"""What is diagnosed: the base URL of an OpenAI-compatible API, a model, and headers for it (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import urlsplit

from control_plane.tools.load.calls import Operation, base_url, guessed_operation

_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Target:
    """Where calls go, and which calls the model is for.

    `headers`, in lower case, may hold a key: they are in no text made from this.
    """

    scheme: str
    host: str
    port: int
    path: str
    model: str
    operation: Operation
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, url: str, model: str, headers: Mapping[str, str] | None = None) -> Self:
        """Return the target of a base URL, which may lack its `/v1`.

        Raises:
            WrongUrl: it cannot be called.
        """
        parts = urlsplit(base_url(url))
        port = parts.port or _PORTS[parts.scheme]
        operation = guessed_operation(model)
        return cls(parts.scheme, parts.hostname or "", port, parts.path, model, operation, headers or {})

    @property
    def has_key(self) -> bool:
        """Whether a key is sent."""
        return "authorization" in self.headers or "api-key" in self.headers

    @property
    def tls(self) -> bool:
        """Whether TLS is spoken."""
        return self.scheme == "https"

    @property
    def place(self) -> str:
        """Host and port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def authority(self) -> str:
        """Host and port as the Host header has them: the scheme's own port is left out."""
        return self.place.rpartition(":")[0] if self.port == _PORTS[self.scheme] else self.place

    @property
    def origin(self) -> str:
        """Scheme and authority."""
        return f"{self.scheme}://{self.authority}"

    @property
    def url(self) -> str:
        """The base URL."""
        return f"{self.origin}{self.path}"

    @property
    def endpoint(self) -> str:
        """The path of the calls."""
        return f"{self.path}/{self.operation.path}"
