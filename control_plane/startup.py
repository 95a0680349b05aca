"""The documents of a start: files are applied again, the demo only where nothing is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from control_plane.registry.values import FILES, Actor, Applied, Head
from control_plane.resources.documents import check_documents
from control_plane.resources.loading import RawDocument, read_files
from control_plane.settings import ControlPlaneSettings


class Book(Protocol):
    """Where documents are kept."""

    @property
    def head(self) -> Head:
        """The newest revision."""

    async def apply(
        self, raws: Sequence[RawDocument], actor: Actor, *, dry_run: bool = False, action: str = "apply"
    ) -> Applied:
        """Create or replace every document, or none."""


async def apply_at_start(
    book: Book, settings: ControlPlaneSettings, stdin: bytes | None, log: FilteringBoundLogger
) -> None:
    """Apply the documents of `settings.files`; what the API made besides stays.

    Raises:
        InvalidDocumentsError: a file is refused, by itself or beside what is stored.
    """
    raws = read_files(settings.files, stdin)
    if settings.demo and book.head.stored:
        # Its provider may listen on another port this time; everything else is the user's by now.
        raws = [raw for raw in raws if raw.value["kind"] == "Backend" and _is_stored(book, raw)]
    if not raws:
        return
    if not book.head.stored:
        # Told with the place in the file, which the set as a whole does not know.
        check_documents(raws)
    applied = await book.apply(raws, FILES, action="start")
    if settings.show_notices:
        for notice in applied.warnings:
            log.warning("no effect yet", document=notice.document, field=notice.field, place=notice.place)


def _is_stored(book: Book, raw: RawDocument) -> bool:
    return ("Backend", raw.value["metadata"]["name"]) in book.head.stored
