"""Snapshots ready to send: compiled once a workload, packed and serialised once a content.

Workloads that are to obey the same share one parcel, and all streams the same bytes. Knows the push
protocol's messages and no stream.
"""

from __future__ import annotations

import hmac
import zlib
from collections.abc import Hashable, Mapping

from control_plane.push.policy import Policy
from ext_proc.contract import push_pb2
from ext_proc.contract.snapshot import Snapshot, content_digest, encode_content

# Most of the gain for a third of the time of the default level.
ZLIB_LEVEL = 3
# Below this, packing costs more than it saves.
PACKED_FROM_BYTES = 1024


class Parcel:
    """One content under one revision.

    `content` names what is in it, secrets included: two parcels with the same are the same to a sidecar.
    """

    __slots__ = ("_messages", "_plain", "_secrets", "content", "digest", "revision", "version")

    def __init__(self, snapshot: Snapshot, secrets: Mapping[tuple[str, str], bytes], content: str) -> None:
        self.version = snapshot.version
        self.revision = snapshot.revision
        self.content = content
        self.digest = content_digest(snapshot.version)
        self._plain: Snapshot | bytes = snapshot  # written when it is first sent
        self._secrets = secrets
        self._messages: dict[tuple[bool, bool], bytes] = {}

    def __repr__(self) -> str:
        return f"<Parcel {self.version} with {len(self._secrets)} secrets>"

    def message(self, *, packed: bool, kept: bool) -> bytes:
        """Return the serialised message.

        Args:
            packed: the subscriber reads zlib.
            kept: the subscriber holds this very content; only what else is new goes out.
        """
        found = self._messages.get((packed, kept))
        if found is None:
            message = push_pb2.Snapshot(
                version=self.version,
                revision=self.revision,
                kept=kept,
                secrets=[
                    push_pb2.Secret(name=name, key=key, value=value)
                    for (name, key), value in self._secrets.items()
                ],
            )
            if not kept:
                if isinstance(self._plain, Snapshot):
                    self._plain = encode_content(self._plain)
                message.content = self._plain
                if packed and len(self._plain) >= PACKED_FROM_BYTES:
                    message.content = zlib.compress(self._plain, ZLIB_LEVEL)
                    message.encoding = push_pb2.ZLIB
            found = self._messages[packed, kept] = message.SerializeToString()
        return found


class Parcels:
    """What one policy has for each workload; compiled when it is first asked for, once for all alike.

    Args:
        policy: what is published.
        mark: random bytes of this process, by which secrets are told apart without showing them.
    """

    def __init__(self, policy: Policy, mark: bytes) -> None:
        self._policy = policy
        self._mark = mark
        self._by_kind: dict[Hashable, Parcel] = {}
        self._by_content: dict[str, Parcel] = {}

    def __repr__(self) -> str:
        return f"<Parcels r{self.revision} of {len(self._by_content)} contents>"

    @property
    def revision(self) -> int:
        """The policy's."""
        return self._policy.revision

    def of(self, workload: str) -> Parcel:
        """Return what `workload` is to hold."""
        kind = self._policy.alike(workload)
        found = self._by_kind.get(kind)
        if found is None:
            found = self._by_kind[kind] = self._make(self._policy.compile(workload))
        return found

    def brings(self, content: str) -> bool:
        """Return whether `content` is what some workload is to hold, as far as workloads were asked for."""
        return content in self._by_content

    def _make(self, snapshot: Snapshot) -> Parcel:
        secrets = {
            name: value for name in _named_secrets(snapshot) if (value := self._policy.secrets.get(name))
        }
        content = content_digest(snapshot.version)
        if secrets:
            content = f"{content}+{self._seal(secrets)}"
        if content not in self._by_content:
            self._by_content[content] = Parcel(snapshot, secrets, content)
        return self._by_content[content]

    def _seal(self, secrets: Mapping[tuple[str, str], bytes]) -> str:
        seal = hmac.new(self._mark, digestmod="sha256")
        for (name, key), value in secrets.items():
            for part in (name.encode(), key.encode(), value):
                seal.update(len(part).to_bytes(8) + part)
        return seal.hexdigest()[:16]


def _named_secrets(snapshot: Snapshot) -> list[tuple[str, str]]:
    return sorted(
        {
            (backend.credential.name, backend.credential.key or "")
            for backend in snapshot.backends.values()
            if backend.credential is not None and backend.credential.kind == "secret"
        }
    )
