"""Fallbacks that never stand in, so that whoever names one is told.

That a Backend without credentials does not stand in for one with credentials is decided in
`ext_proc.candidates`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product

from control_plane.resources.kinds.backend import BackendSpec
from control_plane.resources.kinds.model import ModelSpec
from control_plane.resources.parsing import Document
from control_plane.resources.problems import Problem


def barred_fallbacks(
    documents: Iterable[Document], models: Mapping[str, ModelSpec], backends: Mapping[str, BackendSpec]
) -> Iterator[Problem]:
    """Yield a notice for each fallback in `documents` that some version of its Model never turns to.

    `models` and `backends` are all there are, right together.
    """
    for document in documents:
        if not isinstance(document.spec, ModelSpec):
            continue
        for index, fallback in enumerate(document.spec.fallbacks):
            pairs = product(document.spec.versions, models[fallback].versions)
            for mine, theirs in pairs:
                if backends[mine.backend].credentials and not backends[theirs.backend].credentials:
                    yield document.problem(
                        ("spec", "fallbacks", index),
                        f'names the Model "{fallback}", whose Backend "{theirs.backend}" has no credentials: '
                        f'it never stands in for the Backend "{mine.backend}", which has some',
                    )
                    break
