"""What makes an attempt right: Envoy's Lua filter in front of a provider, and what a route tells it (pure).

The router knows whole seconds and status codes only. `attempts.lua` reads what providers really say and turns
it into two headers for the router, which no caller sees. It also lets stand-ins answer (`contract/plans.py`).
See https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/lua_filter.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

from ext_proc.contract.routes import RouteTerms

Json = dict[str, Any]
LUA: Final = "envoy.filters.http.lua"
TYPE: Final = "type.googleapis.com"
LUA_TYPE: Final = f"{TYPE}/envoy.extensions.filters.http.lua.v3.Lua"
MATCHER_TYPE: Final = f"{TYPE}/envoy.extensions.common.matching.v3.ExtensionWithMatcher"
STATUS_TYPE: Final = f"{TYPE}/envoy.type.matcher.v3.HttpResponseHeaderMatchInput"
SKIP_TYPE: Final = f"{TYPE}/envoy.extensions.filters.common.matcher.action.v3.SkipFilter"

# What `retryOn` calls it → what providers write into an error's `code`.
STAND_IN_CODES: Final = {"context-length": "context_length_exceeded", "content-filter": "content_filter"}


@cache
def attempts_script() -> str:
    """Return the script."""
    return Path(__file__).with_name("attempts.lua").read_text(encoding="utf-8")


def attempts_filter() -> Json:
    """Return the upstream filter; it must see requests first and answers last.

    A good answer, which the script has nothing to say about, does not run it: that would cost 40 µs.
    """
    script = {"@type": LUA_TYPE, "default_source_code": {"inline_string": attempts_script()}}
    status = {"@type": STATUS_TYPE, "header_name": ":status"}
    good = {
        "predicate": {
            "single_predicate": {
                "input": {"name": "status", "typed_config": status},
                "value_match": {"prefix": "2"},
            }
        },
        "on_match": {"action": {"name": "skip", "typed_config": {"@type": SKIP_TYPE}}},
    }
    return {
        "name": LUA,
        "typed_config": {
            "@type": MATCHER_TYPE,
            "extension_config": {"name": LUA, "typed_config": script},
            "xds_matcher": {"matcher_list": {"matchers": [good]}},
        },
    }


def attempt_terms(terms: RouteTerms) -> Json:
    """Return the metadata of a route whose attempts go by `terms`."""
    wanted = terms.retry.retry_on
    told: Json = {
        "statuses": {item: True for item in wanted if item == "5xx" or item.isdigit()},
        "hold_ms": terms.hold.max_ms,
    }
    codes = [code for item, code in STAND_IN_CODES.items() if item in wanted]
    return {"filter_metadata": {LUA: told | ({"stand_in_on": codes} if codes else {})}}
