"""Errors as OpenAI words and shapes them: https://platform.openai.com/docs/guides/error-codes."""

from __future__ import annotations

import orjson


class ApiError(Exception):
    """A request that is refused: HTTP `status` and the fields of OpenAI's error object.

    `headers` go out with the answer (`retry-after`).
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param
        self.code = code
        self.headers = headers

    def body(self) -> bytes:
        """Return `{"error": {"message", "type", "param", "code"}}`."""
        return orjson.dumps(
            {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}
        )


def missing(param: str) -> ApiError:
    """Return the 400 for a required parameter that is not there."""
    return ApiError(
        400, f"Missing required parameter: '{param}'.", param=param, code="missing_required_parameter"
    )


def wrong_type(param: str, expected: str, value: object) -> ApiError:
    """Return the 400 for a parameter of another type; `expected` is "a string", "an array of objects"."""
    return ApiError(
        400,
        f"Invalid type for '{param}': expected {expected}, but got {_named(value)} instead.",
        param=param,
        code="invalid_type",
    )


def out_of_range(param: str, rule: str) -> ApiError:
    """Return the 400 for a number outside its range; `rule` says which ("at least 1")."""
    return ApiError(
        400, f"Invalid value for '{param}': expected a value {rule}.", param=param, code="invalid_value"
    )


def unknown_model(model: str) -> ApiError:
    """Return the 404 for a model that is not offered."""
    message = f"The model `{model}` does not exist or you do not have access to it."
    return ApiError(404, message, code="model_not_found")


def unknown_url(method: str, path: str) -> ApiError:
    """Return the 404 for a path that is not served."""
    message = f"Invalid URL ({method} {path})"
    return ApiError(404, message, code="unknown_url")


def wrong_method(method: str, path: str, allowed: str) -> ApiError:
    """Return the 405 for a known path asked by another method."""
    message = f"Not allowed to {method} on {path}. (HINT: Perhaps you meant to use {allowed}?)"
    return ApiError(405, message, code="method_not_supported", headers=(("allow", allowed),))


def wrong_key() -> ApiError:
    """Return the 401 for a key that is absent or not accepted; the key itself is not repeated."""
    return ApiError(401, "Incorrect API key provided.", code="invalid_api_key")


def overloaded() -> ApiError:
    """Return the 503 of a provider whose slots and queue are full."""
    message = "The engine is currently overloaded, please try again later."
    return ApiError(503, message, kind="server_error", code="engine_overloaded")


def injected(status: int) -> ApiError:
    """Return the error that `error_rate` produces: `status` in a provider's words."""
    if status == 429:
        message = "Rate limit reached (injected by the simulated provider). Please try again."
        return ApiError(429, message, kind="requests", code="rate_limit_exceeded")
    if status < 500:
        return ApiError(status, f"Injected error {status} of the simulated provider.", code="injected")
    message = "The server had an error while processing your request. Sorry about that!"
    return ApiError(status, message, kind="server_error")


def _named(value: object) -> str:
    names: tuple[tuple[type, str], ...] = (
        (bool, "a boolean"),
        (int, "an integer"),
        (float, "a decimal"),
        (str, "a string"),
        (list, "an array"),
        (dict, "an object"),
    )
    return next((name for kind, name in names if isinstance(value, kind)), "null")
