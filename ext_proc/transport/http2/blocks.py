"""Header blocks of the peer: which service a call is for (HPACK, RFC 7541).

A block that came before means the same again, since the peer is told to keep no dynamic table: it is read
once. Until the peer knows that, its blocks are read with the table.
"""

from __future__ import annotations

from typing import Final

from hpack import Decoder
from hpack.exceptions import HPACKError

from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.frames import ProtocolError
from ext_proc.transport.stream import Abort, Service, Services, Status, Stream

MAX_BLOCK_BYTES: Final = 64 * 1024
# The peer sends a handful of different blocks; longer ones are as different as each call.
MAX_KNOWN_BLOCKS: Final = 256
MAX_KNOWN_BLOCK_BYTES: Final = 1024
_SIZE_UPDATE_MASK: Final = 0xE0
_SIZE_UPDATE: Final = 0x20


class HeaderBlocks:
    """Reads the blocks of one connection. `known` holds the services of blocks that may be looked up."""

    __slots__ = ("_decoder", "_services", "_table_is_empty", "known")

    def __init__(self, services: Services) -> None:
        self._services = services
        self._decoder = Decoder(max_header_list_size=MAX_BLOCK_BYTES)
        self._table_is_empty = False
        self.known: dict[bytes, Service] = {}

    def keep_no_table(self) -> None:
        """Take notice that the peer keeps no table from now on; its next block must say so."""
        self._decoder.max_allowed_table_size = 0
        self._table_is_empty = True

    def read(self, block: bytes) -> Service:
        """Return the service that a block names, or one that refuses when there is no such method.

        Raises:
            ProtocolError: the block cannot be read; then no later block can.
        """
        if len(block) > MAX_BLOCK_BYTES:
            raise ProtocolError(frames.ENHANCE_YOUR_CALM, "a header block is too long")
        try:
            headers = self._decoder.decode(block, raw=True)
        except HPACKError as error:
            reason = f"a header block cannot be read: {type(error).__name__}"
            raise ProtocolError(frames.COMPRESSION_ERROR, reason) from None
        path = next((value for name, value in headers if name == b":path"), b"")
        service = self._services.get(path.decode("utf-8", "replace"), unimplemented)
        if (
            self._table_is_empty
            and 0 < len(block) <= MAX_KNOWN_BLOCK_BYTES
            and block[0] & _SIZE_UPDATE_MASK != _SIZE_UPDATE
        ):
            if len(self.known) >= MAX_KNOWN_BLOCKS:
                self.known.clear()
            self.known[block] = service
        return service


async def unimplemented(_stream: Stream) -> None:
    """Refuse a call of a method that does not exist."""
    raise Abort(Status.UNIMPLEMENTED, "there is no such method here")
