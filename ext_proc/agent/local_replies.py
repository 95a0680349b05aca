"""What Envoy says on its own account, in OpenAI's shape (pure).

Envoy answers by itself when it refuses a request or cannot reach a provider. Its words are plain text; the
mappers rendered here make them `{"error": {…}}` with `x-outrigger-error: <reason>`. They are told apart by
`response.code_details`, never by status: a status alone would also match the processor's own answers
(`ImmediateResponse`, whose details begin with "outrigger"), which are complete already.

See https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_conn_man/response_code_details.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ext_proc.contract import headers, telemetry
from ext_proc.openai.errors import ErrorType, error_body

Json = dict[str, Any]
NO_BACKEND_ROUTE: Final = "no-backend"
CLOSED_ROUTE: Final = "processor-unavailable"
UNKNOWN_PATH: Final = "unknown-path"
UNKNOWN_PATH_MESSAGE: Final = "Unknown request path: the API is below /v1/."


@dataclass(frozen=True, slots=True)
class LocalReply:
    """One answer: `when` is a CEL condition; `status` None keeps Envoy's own."""

    when: str
    reason: str
    message: str
    type: ErrorType = ErrorType.SERVER
    status: int | None = None


EXPRESSION_FILTER: Final = (
    "type.googleapis.com/envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter"
)
INVALID: Final = ErrorType.INVALID_REQUEST
REPLIES: Final = (
    LocalReply(
        "response.code_details == 'request_payload_too_large'",
        "request-too-large",
        "The request body is larger than 32 MiB.",
        INVALID,
    ),
    LocalReply(
        "response.code_details == 'response_payload_too_large'",
        "response-too-large",
        "The provider's answer is larger than 32 MiB.",
        status=502,
    ),
    LocalReply(
        # It has no path, so that no route matches it.
        "response.code_details == 'route_not_found' && request.method == 'CONNECT'",
        "bad-request",
        "The method CONNECT is not allowed.",
        INVALID,
        405,
    ),
    LocalReply(
        "response.code_details.contains('upgrade_failed')",
        "upgrade-refused",
        "This proxy speaks HTTP/1.1 and HTTP/2 only: send the request without Upgrade.",
        INVALID,
        400,
    ),
    LocalReply(
        "response.code_details.contains('path_normalization_failed') || "
        "response.code_details.contains('missing_path') || response.code_details.contains('absolute_path')",
        "bad-path",
        "The request's path is not valid.",
        INVALID,
        400,
    ),
    LocalReply(
        "response.code_details == 'http1.invalid_transfer_encoding'",
        "bad-request",
        "The request's Transfer-Encoding is not chunked.",
        INVALID,
        400,
    ),
    LocalReply(
        "response.code_details.contains('headers_too_large') || "
        "response.code_details.contains('too_many_headers') || response.code == 431",
        "headers-too-large",
        "The request has too many headers, or they are too long.",
        INVALID,
    ),
    LocalReply(
        f"response.code_details.startsWith('ext_proc') || xds.route_name == '{CLOSED_ROUTE}'",
        "processor-unavailable",
        "The sidecar's processor is not available, and this workload does not fail open.",
        status=503,
    ),
    LocalReply(
        f"xds.route_name == '{NO_BACKEND_ROUTE}'",
        "no-backend",
        "No default Backend is configured for this request.",
        status=503,
    ),
    LocalReply(
        "response.code_details == 'upstream_per_try_timeout' || "
        "response.code_details.contains('response_timeout') || "
        "response.code_details.contains('per_try_idle_timeout')",
        "upstream-timeout",
        "The provider did not answer in time.",
        status=504,
    ),
    LocalReply(
        "response.code_details.contains('stream_idle_timeout') || "
        "response.code_details.contains('request_timeout') || "
        "response.code_details.contains('request_header_timeout')",
        "idle-timeout",
        "Nothing was sent for too long.",
    ),
    LocalReply(
        "response.code_details.contains('connection_failure') || "
        "response.code_details.contains('connection_timeout') || "
        "response.code_details.contains('no_healthy_upstream')",
        "upstream-unreachable",
        "The provider cannot be reached.",
        status=503,
    ),
    LocalReply(
        "response.code_details.contains('upstream_reset_before_response_started{overflow') || "
        "response.code_details.contains('overload') || response.code_details.contains('maximum_')",
        "overloaded",
        "The sidecar has too much to do.",
        status=503,
    ),
    LocalReply(
        "response.code_details.contains('protocol_error') || "
        "response.code_details.contains('upstream_reset')",
        "upstream-reset",
        "The provider broke off before it answered.",
        status=502,
    ),
    LocalReply(
        # Every policy has a route for what is left over.
        "response.code_details == 'route_not_found'",
        "no-policy",
        "The sidecar has no policy yet: its control plane has not been reached.",
        status=503,
    ),
    LocalReply(
        "response.code == 404",
        UNKNOWN_PATH,
        UNKNOWN_PATH_MESSAGE,
        INVALID,
    ),
    LocalReply("response.code >= 500", "proxy-error", "The sidecar could not handle the request."),
    LocalReply("response.code >= 400", "bad-request", "The request is not valid HTTP.", INVALID),
)


def error_text(reason: str, message: str, kind: ErrorType) -> str:
    """Return an error in OpenAI's shape, as JSON text. Its code is `reason`, written as codes are."""
    return error_body(message, kind, code=reason.replace("-", "_")).decode()


def request_id_header() -> Json:
    """Return the header that names the request, for answers that have none yet.

    The bootstrap keeps the id in dynamic metadata, because the header itself is kept from providers.
    """
    return {
        "header": {"key": headers.REQUEST_ID, "value": "%DYNAMIC_METADATA(outrigger.request:id)%"},
        "append_action": "ADD_IF_ABSENT",
    }


def render_local_replies(*, named: bool = True) -> list[Json]:
    """Return the mappers of `local_reply_config`, in order: the first that matches counts.

    Not `named`: for requests that have no id, which somebody else's has.
    """
    ours = "response.code_details.startsWith('outrigger') || response.code_details == 'direct_response'"
    return [
        {"filter": _cache_hit()},
        {"filter": _cel(ours)},
        *(_mapper(reply, named=named) for reply in REPLIES),
    ]


def _cache_hit() -> Json:
    # The most frequent of our answers is told by its metadata: an expression costs ten times that.
    return {
        "metadata_filter": {
            "matcher": {
                "filter": telemetry.NAMESPACE,
                "path": [{"key": telemetry.CACHE}],
                "value": {"string_match": {"exact": "hit"}},
            },
            "match_if_key_not_found": False,
        }
    }


def _cel(condition: str) -> Json:
    return {
        "extension_filter": {
            "name": "envoy.access_loggers.extension_filters.cel",
            "typed_config": {
                "@type": EXPRESSION_FILTER,
                "expression": condition,
            },
        }
    }


def _mapper(reply: LocalReply, *, named: bool) -> Json:
    mapper: Json = {
        "filter": _cel(reply.when),
        "headers_to_add": [
            {
                "header": {"key": headers.ERROR, "value": reply.reason},
                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
            },
            *((request_id_header(),) if named else ()),
        ],
        "body_format_override": {
            "content_type": "application/json",
            "text_format_source": {"inline_string": error_text(reply.reason, reply.message, reply.type)},
        },
    }
    if reply.status is not None:
        mapper["status_code"] = reply.status
    return mapper
