"""The documents of a start: files are applied again, the demo only where nothing is, and it makes room.

What is mirrored meanwhile has another owner than the files, and stays. Files that contradict what the API has
made since are left out, all of them: a start never takes down what was accepted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

from structlog.typing import FilteringBoundLogger

from control_plane.registry.values import FILES, Actor, Applied, DocumentKey, Head
from control_plane.resources.demo import demo_documents
from control_plane.resources.documents import check_documents, duplicates
from control_plane.resources.loading import RawDocument, read_files
from control_plane.resources.parsing import parse_documents
from control_plane.resources.problems import InvalidDocumentsError
from control_plane.resources.written import same_content, written_content
from control_plane.settings import ControlPlaneSettings

MAX_NAMED: Final = 5
"""How many reasons and documents one warning names."""


class Book(Protocol):
    """Where documents are kept."""

    @property
    def head(self) -> Head:
        """The newest revision."""

    async def apply(
        self,
        raws: Sequence[RawDocument],
        actor: Actor,
        *,
        dry_run: bool = False,
        action: str = "apply",
        without: Collection[DocumentKey] = (),
    ) -> Applied:
        """Create or replace every document and delete those `without`, or do nothing."""


async def apply_at_start(
    book: Book, settings: ControlPlaneSettings, stdin: bytes | None, log: FilteringBoundLogger
) -> str:
    """Apply the documents of `settings.files`; what the API made besides stays.

    Returns why none of them was applied, in one line, when they contradict what is stored: the policy that
    was accepted last stays in force. Else "".

    Raises:
        InvalidDocumentsError: a file is refused by itself, or nothing is stored that could stay in force.
    """
    raws = _ours(book.head, read_files(settings.files, stdin), log)
    if settings.demo and book.head.stored:
        # Its provider may listen on another port this time; everything else is the user's by now.
        raws = [raw for raw in raws if raw.value["kind"] == "Backend" and _is_stored(book, raw)]
    if not raws:
        return ""
    if not book.head.stored:
        # Told with the place in the file, which the set as a whole does not know.
        check_documents(raws)
    try:
        applied = await _apply(book, raws, set() if settings.demo else demo_left(book.head))
    except InvalidDocumentsError as refused:
        if not book.head.stored:
            raise
        return _left_out(book.head, raws, refused, log)
    if settings.show_notices:
        for notice in applied.warnings:
            log.warning(
                "accepted with a warning",
                document=notice.document,
                field=notice.field,
                why=notice.message,
                place=notice.place,
            )
    return ""


async def _apply(book: Book, raws: Sequence[RawDocument], left: set[DocumentKey]) -> Applied:
    """Apply `raws`. What an earlier demo has left makes room, unless somebody builds on it."""
    if left:
        named = {_key(raw) for raw in raws}
        try:
            return await book.apply(raws, FILES, action="start", without=left - named)
        except InvalidDocumentsError:
            pass  # the plain attempt says what is wrong, with or without the demo
    return await book.apply(raws, FILES, action="start")


def _left_out(
    head: Head, raws: Sequence[RawDocument], refused: InvalidDocumentsError, log: FilteringBoundLogger
) -> str:
    """Warn that none of `raws` is applied, and return the warning as a sentence.

    Raises:
        InvalidDocumentsError: a document is wrong by itself, whatever is stored.
    """
    parsed, problems = parse_documents(raws)
    problems += duplicates(parsed)
    if problems:
        raise InvalidDocumentsError(problems)
    reasons = [problem.sentence() for problem in refused.problems[:MAX_NAMED]]
    changed: list[str] = []
    for document in parsed:
        before = head.stored.get((document.kind, document.name))
        if before is None or not same_content(before.content, written_content(document)):
            changed.append(f"{document.id} ({document.raw.place()})")
    todo = "correct the files, or what the API has made, and start again"
    log.warning("files not applied: they contradict what is stored", why=reasons, files=changed[:MAX_NAMED])
    return (
        f"they contradict what is stored, and the policy accepted last stays in force: {'; '.join(reasons)}. "
        f"The files would change {', '.join(changed[:MAX_NAMED])}; {todo}"
    )


def demo_left(head: Head) -> set[DocumentKey]:
    """Return the documents in `head` that are the built-in demo's, as it wrote them."""
    backend = head.stored.get(("Backend", "simulated"))
    if backend is None:
        return set()
    demo = {
        (value["kind"], value["metadata"]["name"]): value
        for value in demo_documents(backend.value["spec"]["url"])
    }
    left = {key: head.stored[key] for key in demo if key in head.stored}
    return {key for key, stored in left.items() if not stored.owner and stored.value == demo[key]}


def _ours(head: Head, raws: Sequence[RawDocument], log: FilteringBoundLogger) -> list[RawDocument]:
    """Return `raws` without the documents that are mirrored, each of which is warned of."""
    ours: list[RawDocument] = []
    for raw in raws:
        stored = head.stored.get(_key(raw))
        if stored is None or not stored.owner:
            ours.append(raw)
            continue
        document = f"{stored.kind}/{stored.name}"
        log.warning("not applied: it is mirrored", document=document, owner=stored.owner, place=raw.place())
    return ours


def _key(raw: RawDocument) -> DocumentKey:
    """Return kind and name of a document that may be wrong."""
    value = raw.value if isinstance(raw.value, Mapping) else {}
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return str(value.get("kind")), str(name)


def _is_stored(book: Book, raw: RawDocument) -> bool:
    return ("Backend", raw.value["metadata"]["name"]) in book.head.stored
