"""`outrigger provider`: the simulated provider as a process."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Annotated, Literal

import typer
import uvloop
from pydantic import ValidationError

from control_plane.tools.provider.running import running_provider
from control_plane.tools.provider.settings import ProviderSettings
from control_plane.tools.provider.wire.server import CannotListen


def provider(
    *,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 8001,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    tls_cert: Annotated[
        Path | None, typer.Option(help="Certificate (PEM): serve TLS, HTTP/2 by ALPN.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Key of the certificate (PEM).")] = None,
    base_path: Annotated[str, typer.Option(help="Path below which the API is served.")] = "/v1",
    models: Annotated[list[str] | None, typer.Option(help="Offer only this model (repeat).")] = None,
    api_key: Annotated[list[str] | None, typer.Option(help="Accept only this key (repeat).")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same request: same answer.")] = 0,
    answers: Annotated[
        Literal["words", "echo"], typer.Option(help="Invent words, or repeat the last user message.")
    ] = "words",
    other_paths: Annotated[
        Literal["refuse", "echo"], typer.Option(help="Paths that are not simulated: 404, or say what came.")
    ] = "refuse",
    conversations: Annotated[
        bool, typer.Option("--conversations", help="Take a list of conversations as messages.")
    ] = False,
    max_conversations: Annotated[
        int, typer.Option(min=0, help="Most of them in one call; 0: any number.")
    ] = 0,
    rtt_ms: Annotated[float, typer.Option(min=0, help="Round trip: once a request, once a connection.")] = 0,
    tls_handshake_ms: Annotated[float, typer.Option(min=0, help="Cost of each new connection.")] = 0,
    cold_start_ms: Annotated[float, typer.Option(min=0, help="Wait of a call that finds it cold.")] = 0,
    idle_after_s: Annotated[float, typer.Option(min=0, help="Seconds without calls until it is cold.")] = 600,
    prefill_ms_per_token: Annotated[float, typer.Option(min=0, help="Time to read a prompt token.")] = 0,
    prefill_knee_tokens: Annotated[
        int, typer.Option(min=0, help="Prompt length from which another slope holds; 0: none.")
    ] = 0,
    prefill_ms_per_token_past_knee: Annotated[float, typer.Option(min=0, help="That slope.")] = 0,
    decode_ms_per_token: Annotated[float, typer.Option(min=0, help="Time to produce a token.")] = 0,
    batch_slowdown: Annotated[
        float, typer.Option(min=0, help="Slower decoding per further answer in one call, as a share.")
    ] = 0,
    output_tokens: Annotated[float, typer.Option(min=1, help="Mean answer length at temperature 0.")] = 34.17,
    temperature_growth: Annotated[
        float, typer.Option(min=0, max=5, help="Length grows by exp(this * temperature).")
    ] = 1.0317,
    output_spread: Annotated[
        float, typer.Option(min=0, max=0.99, help="Spread around the mean, a share.")
    ] = 0.1,
    rpm: Annotated[int | None, typer.Option(min=1, help="Quota: requests a minute, per model.")] = None,
    tpm: Annotated[int | None, typer.Option(min=1, help="Quota: tokens a minute, per model.")] = None,
    slots: Annotated[int, typer.Option(min=0, help="Calls at once; 0: any number.")] = 0,
    queue: Annotated[int | None, typer.Option(min=0, help="Calls that may wait for a slot.")] = None,
    error_rate: Annotated[float, typer.Option(min=0, max=1, help="Share of calls that fail.")] = 0,
    error_status: Annotated[
        list[int] | None, typer.Option(min=400, max=599, help="With which status (repeat).")
    ] = None,
    log_size: Annotated[int, typer.Option(min=0, help="Requests kept for /_provider/stats.")] = 1000,
    log_body_bytes: Annotated[int, typer.Option(min=0, help="Of each body, how much is kept there.")] = 0,
) -> None:
    """Run an OpenAI-compatible provider that costs nothing.

    It serves chat, completions, embeddings and models on HTTP/1.1 and HTTP/2, takes as long and refuses as
    much as you say. What it saw: GET /_provider/stats. Scripted answers: POST /_provider/script.

    Example, a far and busy provider:

    outrigger provider --port 8001 --rtt-ms 120 --tls-handshake-ms 240 --cold-start-ms 2000 --rpm 3500
    """
    try:
        settings = ProviderSettings(
            host=host,
            port=port,
            tls_cert=tls_cert,
            tls_key=tls_key,
            base_path=base_path,
            models=tuple(models or ()),
            api_keys=tuple(api_key or ()),
            seed=seed,
            answers=answers,
            other_paths=other_paths,
            conversations=conversations,
            max_conversations=max_conversations,
            rtt_ms=rtt_ms,
            tls_handshake_ms=tls_handshake_ms,
            cold_start_ms=cold_start_ms,
            idle_after_s=idle_after_s,
            prefill_ms_per_token=prefill_ms_per_token,
            prefill_knee_tokens=prefill_knee_tokens,
            prefill_ms_per_token_past_knee=prefill_ms_per_token_past_knee,
            decode_ms_per_token=decode_ms_per_token,
            batch_slowdown=batch_slowdown,
            output_tokens=output_tokens,
            temperature_growth=temperature_growth,
            output_spread=output_spread,
            requests_per_minute=rpm,
            tokens_per_minute=tpm,
            slots=slots,
            queue=queue,
            error_rate=error_rate,
            error_statuses=tuple(error_status or (500,)),
            log_size=log_size,
            log_body_bytes=log_body_bytes,
        )
    except ValidationError as error:
        reasons = "; ".join(
            f"{'.'.join(map(str, item['loc']))} {item['msg'].removeprefix('Value error, ')}".strip()
            for item in error.errors()
        )
        raise typer.BadParameter(reasons) from error
    try:
        uvloop.run(_serve(settings))
    except CannotListen as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


async def _serve(settings: ProviderSettings) -> None:
    """Serve until SIGINT or SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with running_provider(settings) as running:
        typer.echo(f"Simulated provider on {running.url}")
        await stop.wait()
