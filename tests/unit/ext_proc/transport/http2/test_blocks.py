"""Header blocks: which service they name, and which of them are read only once."""

from __future__ import annotations

import pytest
from hpack import Encoder
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.transport.http2 import blocks, frames
from ext_proc.transport.http2.blocks import HeaderBlocks, unimplemented
from ext_proc.transport.stream import Abort, Status, Stream


async def service(_stream: Stream) -> None:
    """Do nothing."""


def reading(*, table: bool) -> tuple[HeaderBlocks, Encoder]:
    """Return both ends, with a dynamic table between them or after it was given up."""
    made, encoder = HeaderBlocks({"/a/b": service}), Encoder()
    if not table:
        encoder.header_table_size = 0
        made.keep_no_table()
        made.read(encoder.encode([]))
    return made, encoder


@pytest.mark.parametrize("table", [True, False])
@pytest.mark.parametrize("path", ["/a/b", "/a/c", "", "/\udcff"])
def test_the_service_of_a_block(path: str, table: bool) -> None:
    """It is the path's; what has no service is refused, whatever bytes it is."""
    made, encoder = reading(table=table)
    for _ in range(3):
        block = encoder.encode([(b":path", path.encode("utf-8", "surrogateescape")), (b"te", b"trailers")])
        assert made.read(block) is (service if path == "/a/b" else unimplemented)


def test_blocks_are_known_again_once_there_is_no_table() -> None:
    """Not before, since a block then means what the table says."""
    made, encoder = reading(table=True)
    made.read(encoder.encode([(":path", "/a/b")]))
    assert made.known == {}
    made, encoder = reading(table=False)
    assert made.known == {}  # the block that gives up the table would give it up again
    block = encoder.encode([(":path", "/a/b")])
    made.read(block)
    assert made.known == {block: service}


def test_only_so_many_short_blocks_are_known() -> None:
    """A peer whose every block is different costs no memory."""
    made, encoder = reading(table=False)
    for number in range(3 * blocks.MAX_KNOWN_BLOCKS):
        made.read(encoder.encode([(":path", "/a/b"), ("traceparent", str(number))], huffman=False))
        assert len(made.known) <= blocks.MAX_KNOWN_BLOCKS
    made.known.clear()
    made.read(encoder.encode([("long", "x" * blocks.MAX_KNOWN_BLOCK_BYTES)], huffman=False))
    made.read(b"")
    assert made.known == {}


@pytest.mark.parametrize(
    ("block", "code"),
    [
        (b"\x80", frames.COMPRESSION_ERROR),
        (b"\x40", frames.COMPRESSION_ERROR),
        (b"\x00\x7f" + b"\xff" * 60_000, frames.COMPRESSION_ERROR),
        (b"\x40\x81\x00\x81\x00", frames.COMPRESSION_ERROR),
        (b"\x82\x20", frames.COMPRESSION_ERROR),
        (b"\xbe", frames.COMPRESSION_ERROR),
        (b"\x20" * (blocks.MAX_BLOCK_BYTES + 1), frames.ENHANCE_YOUR_CALM),
    ],
)
def test_blocks_that_cannot_be_read(block: bytes, code: int) -> None:
    """They break the connection."""
    made, _ = reading(table=True)
    with pytest.raises(frames.ProtocolError) as broken:
        made.read(block)
    assert broken.value.code == code


def test_a_small_block_of_large_headers() -> None:
    """What one index stands for counts, not the index."""
    made, encoder = reading(table=True)
    made.read(encoder.encode([("x", "y" * 4000)], huffman=False))
    with pytest.raises(frames.ProtocolError):
        made.read(b"\xbe" * 20)


@given(st.lists(st.binary(max_size=40), max_size=5), st.booleans())
def test_any_bytes(chunks: list[bytes], table: bool) -> None:
    """They are read or refused, never anything else."""
    made, _ = reading(table=table)
    for chunk in chunks:
        try:
            made.read(chunk)
        except frames.ProtocolError:
            return


async def test_unimplemented() -> None:
    """It says so."""
    with pytest.raises(Abort) as aborted:
        await unimplemented(None)  # type: ignore[arg-type]
    assert aborted.value.status is Status.UNIMPLEMENTED
