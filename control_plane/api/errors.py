"""What the API itself refuses, before the registry is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from control_plane.resources.problems import Problem


class RefusedRequestError(Exception):
    """A request is answered with `status` and a problem document.

    `detail` is a sentence for the user and quotes no value of a body; `errors` name fields.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        errors: Iterable[Problem] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = dict(headers or {})
