"""Options of the control plane's own serving: where it listens, who may join, what it keeps, whom it asks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ApiPort = Annotated[
    int,
    typer.Option(min=1, max=65535, metavar="PORT", envvar="OUTRIGGER_API_PORT", help="The API."),
]
PushPort = Annotated[
    int,
    typer.Option(
        min=1, max=65535, metavar="PORT", envvar="OUTRIGGER_PUSH_PORT", help="Where sidecars connect."
    ),
]
OpenMetricsPort = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=65535,
        metavar="PORT",
        envvar="OUTRIGGER_METRICS_PORT",
        help="Metrics without a token; else they are on the API's port only.",
    ),
]
PushAddress = Annotated[
    str | None,
    typer.Option(
        metavar="ADDR",
        envvar="OUTRIGGER_PUSH_ADDRESS",
        help="unix:/PATH or HOST:PORT, in the place of --bind and --push-port.",
    ),
]
PushCert = Annotated[
    Path | None,
    typer.Option(metavar="FILE", envvar="OUTRIGGER_PUSH_CERT", help="Certificate (PEM): push over TLS."),
]
PushKey = Annotated[
    Path | None,
    typer.Option(metavar="FILE", envvar="OUTRIGGER_PUSH_KEY", help="Key of the certificate (PEM)."),
]
PushClientCa = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        envvar="OUTRIGGER_PUSH_CLIENT_CA",
        help="Sidecars must show a certificate of this authority (PEM).",
    ),
]
Bind = Annotated[
    str,
    typer.Option(metavar="ADDR", envvar="OUTRIGGER_BIND", help="Address that the ports listen on."),
]
KeptIn = Annotated[
    Path, typer.Option(metavar="DIR", envvar="OUTRIGGER_DATA_DIR", help="What is kept over restarts.")
]
MinReadySidecars = Annotated[
    int, typer.Option(min=0, help="How many sidecars must serve the current policy to be ready.")
]
PlaygroundProxy = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="OUTRIGGER_PLAYGROUND_PROXY",
        help="The proxy that the dashboard's playground asks (http://HOST:PORT); none without it.",
    ),
]
Prometheus = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="OUTRIGGER_PROMETHEUS",
        help="The Prometheus that gates of Releases ask (http://HOST:9090).",
    ),
]


def check_together(
    push_cert: Path | None,
    push_key: Path | None,
    push_client_ca: Path | None,
    webhook_cert: Path | None,
    webhook_key: Path | None,
) -> None:
    """See that files that are of no use alone are given together.

    Raises:
        typer.BadParameter: one is missing.
    """
    if (push_cert is None) is not (push_key is None):
        raise typer.BadParameter("--push-cert and --push-key go together", param_hint="--push-cert")
    if push_client_ca is not None and push_cert is None:
        raise typer.BadParameter("needs --push-cert and --push-key", param_hint="--push-client-ca")
    if (webhook_cert is None) is not (webhook_key is None):
        raise typer.BadParameter("--webhook-cert and --webhook-key go together", param_hint="--webhook-cert")


def proxy_origin(url: str | None) -> str | None:
    """Return the origin of the playground's proxy, None for none.

    Raises:
        typer.BadParameter: it is none.
    """
    from control_plane.playground import origin_of  # noqa: PLC0415 - keeps --help quick

    try:
        return origin_of(url) if url else None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--playground-proxy") from None


def prometheus_url(url: str | None) -> str | None:
    """Return the URL of the Prometheus that is asked, None for none.

    Raises:
        typer.BadParameter: it is none.
    """
    from control_plane.resources.urls import check_url  # noqa: PLC0415 - keeps --help quick

    try:
        return check_url(url) if url else None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--prometheus") from None
