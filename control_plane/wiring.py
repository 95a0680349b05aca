"""The only place in the control plane that names concrete classes and runs them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
import uvicorn
import uvloop
from prometheus_client import Counter, Histogram
from prometheus_client.registry import Collector
from starlette.types import ASGIApp
from structlog.typing import FilteringBoundLogger

from control_plane.api.application import Parts, create_application
from control_plane.api.metrics import metrics_application
from control_plane.api.ports import Surroundings
from control_plane.api.release_series import ReleaseSeries
from control_plane.auth.ended import LOOK_EVERY_S, EndedSessions
from control_plane.auth.first_admin import ensure_admin
from control_plane.auth.gate import Gate
from control_plane.auth.service_accounts import is_signed
from control_plane.auth.session_key import session_key, with_token
from control_plane.auth.sessions import Sessions
from control_plane.auth.throttle import Throttle
from control_plane.background import Background, lasting
from control_plane.bulletins.courier import Courier
from control_plane.bulletins.post import Post
from control_plane.halting import Halting
from control_plane.playground import HttpProxy
from control_plane.prometheus import Prometheus
from control_plane.push.admission import Admission, MayJoin, Pass
from control_plane.push.fleet import Fleet
from control_plane.push.policy import Policy
from control_plane.push.questions import Questions
from control_plane.push.server import PushServer
from control_plane.registry.registry import Registry
from control_plane.registry.releases import progress_of, wanted_queries
from control_plane.registry.values import Head
from control_plane.releases.asking import Asking
from control_plane.releases.runner import Runner
from control_plane.replicas.board import Board
from control_plane.replicas.everywhere import Everywhere
from control_plane.replicas.totals import Totals
from control_plane.resources.compile import compile_snapshot
from control_plane.secrets.fernet import FernetSealer
from control_plane.secrets.key_source import VARIABLE, key_source
from control_plane.settings import ADMIN_TOKEN_LINE, NOT_APPLIED_LINE, ControlPlaneSettings, PushTls
from control_plane.startup import apply_at_start
from control_plane.store.opening import store_for
from ext_proc.contract.policies import Rank, rank
from ext_proc.contract.snapshot import Snapshot
from ext_proc.quick_start import started, without
from ext_proc.telemetry.logs import configure_logging

if TYPE_CHECKING:
    from control_plane.webhook.running import InCluster
    from control_plane.webhook.settings import WebhookSettings

API_STOP_S = 2
SQLITE = "sqlite"  # on it there is one replica
ALONE_LOOKS_S = 60.0
POD_LOOKS = 30  # half a minute after its token's end a pod's stream ends, and comes back with the next
# With Python's own, a change for 2,000 sidecars spends a fifth of its CPU on looking for cycles.
GC_THRESHOLDS = (50_000, 20, 50)
ACKNOWLEDGED_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class _ApiServer(uvicorn.Server):
    """Uvicorn without its own signal handling: the process stops as a whole."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


def run_control_plane(settings: ControlPlaneSettings, cluster: WebhookSettings | None = None) -> None:
    """Serve the API and the push stream until SIGINT or SIGTERM, and what `cluster` asks for.

    Raises:
        InvalidDocumentsError: a file of `settings` is refused.
        RegistryError: the database cannot be used.
        PushAddressError: the push address cannot be listened on.
        OSError: the API's address cannot be listened on.
        KubeConfigError, KubernetesError: the cluster cannot be asked.
        CertificateFilesError: the webhook's certificate cannot be used.
    """
    configure_logging("control-plane", settings.log_level)
    stdin = sys.stdin.buffer.read() if Path("-") in settings.files else None
    uvloop.run(_serve(settings, cluster, stdin, structlog.get_logger("control-plane")))


async def _serve(
    settings: ControlPlaneSettings,
    cluster: WebhookSettings | None,
    stdin: bytes | None,
    log: FilteringBoundLogger,
) -> None:
    loop = asyncio.get_running_loop()
    store, sealer = store_for(settings.database, settings.data_dir), _sealer(settings)
    registry = Registry(store, sealer, now=_now, random_bytes=secrets.token_bytes, log=log)
    alone, me = store.name == SQLITE, (secrets.token_hex(8), _replica(settings))
    acknowledged = Histogram(
        "outrigger_push_acknowledged_seconds",
        "From a change to its being in force at a sidecar.",
        buckets=ACKNOWLEDGED_BUCKETS_S,
        registry=None,
    )
    halts = Counter("outrigger_revisions_halted", "Revisions that the data plane refused.", registry=None)
    halting = Halting(registry.halt, log, on_halt=halts.inc)
    fleet = Fleet(
        clock=time.monotonic,
        now=_now,
        later=loop.call_later,
        on_halt=halting.halted,
        mark=os.urandom(32),
        log=log,
        on_acknowledged=acknowledged.observe,
        replica="" if alone else me[1],
    )

    def in_force() -> int:
        return registry.in_force.revision

    everywhere = Everywhere(fleet, in_force, time.monotonic, alone=alone)
    totals = Totals(me[0])
    fleet.listen(totals.told)
    board = Board(store, fleet, totals, everywhere, me=me, in_force=in_force, clock=time.monotonic, log=log)
    ended = EndedSessions(store, time.time, ALONE_LOOKS_S if alone else LOOK_EVERY_S)
    registry.subscribe(lambda head: fleet.publish(_policy(head)))
    releases = ReleaseSeries()
    registry.subscribe(releases.follow)
    bulletins = Counter(
        "outrigger_release_bulletins", "Attempts to tell a webhook.", ("result",), registry=None
    )
    courier = _courier(registry, bulletins, log)
    prometheus = Prometheus(settings.prometheus) if settings.prometheus else None
    asking = Asking(
        prometheus.value if prometheus else None,
        lambda: wanted_queries(registry.head),
        registry.take_answers,
    )
    runner = Runner(registry, everywhere, lambda: _compared(registry.head), log)
    await registry.open()
    try:
        left_out = await apply_at_start(registry, settings, stdin, log)
        if left_out:
            print(f"{NOT_APPLIED_LINE}{left_out}", flush=True)
        made = await ensure_admin(registry, settings.admin_token, now=_now, entropy=secrets.token_bytes)
        if made is not None:
            # On stdout and nowhere else: whoever started this reads it once.
            print(f"{ADMIN_TOKEN_LINE}{made}", flush=True)
        await ended.look()
        shared = await session_key(store, sealer, secrets.token_bytes, log, alone=alone)
        sessions = Sessions(time.time, secrets.token_bytes, with_token(shared, settings.admin_token), ended)
        gate = Gate(
            registry,
            given=settings.admin_token,
            key=os.urandom(32),
            throttle=Throttle(time.monotonic),
            clock=time.monotonic,
            now=_now,
        )
        async with _in_cluster(cluster, settings, log) as inside:
            await _listen_and_serve(
                settings,
                registry,
                fleet,
                everywhere=everywhere,
                gate=gate,
                sessions=sessions,
                inside=inside,
                log=log,
                series=(acknowledged, halts, releases, bulletins),
                background=(runner.run, courier.run, asking.run, ended.run, *(() if alone else (board.run,))),
            )
    finally:
        await halting.close()
        await registry.close()


async def _listen_and_serve(
    settings: ControlPlaneSettings,
    registry: Registry,
    fleet: Fleet,
    *,
    everywhere: Everywhere,
    gate: Gate,
    sessions: Sessions,
    inside: InCluster | None,
    log: FilteringBoundLogger,
    series: Iterable[Collector],
    background: Iterable[Background],
) -> None:
    questions = Questions(everywhere, lambda: secrets.randbits(64))
    parts = Parts(
        registry,
        everywhere,
        gate,
        sessions,
        Surroundings(_now, secrets.token_bytes),
        log,
        questions,
        proxy=HttpProxy(settings.playground_proxy) if settings.playground_proxy else None,
        here=fleet,
        series=(*series, *(inside.series if inside else ())),
    )
    # FastAPI asks of each route whether it has models of pydantic 1, and would load all of that to know.
    with without("pydantic.v1"):
        app = create_application(
            parts, version=version("outrigger-llm"), min_ready_sidecars=settings.min_ready_sidecars
        )
    push = PushServer(
        fleet,
        settings.push_address,
        log,
        tls=settings.push_tls or _own_tls(inside),
        admission=Admission(_may_join(gate, inside), log),
        questions=questions,
    )
    servers = [(_http_server(app), settings.api_port)]
    if settings.metrics_port is not None:
        servers.append((_http_server(metrics_application(app.state.metrics)), settings.metrics_port))
    reviews = inside.server(_ApiServer) if inside else None
    if inside and reviews:
        servers.append(reviews)
        background = (*background, *inside.background)

    def stop() -> None:
        app.state.end_streams()
        for server, _ in servers:
            server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    with contextlib.ExitStack() as listeners:
        serving = [
            server.serve(sockets=[listeners.enter_context(_listen(settings.api_host, port))])
            for server, port in servers
        ]
        try:
            await push.start()
        except BaseException:
            for unserved in serving:
                unserved.close()
            raise
        started(GC_THRESHOLDS)
        own = [asyncio.create_task(lasting(run, log)) for run in background]
        log.info("serving", api=f"{settings.api_host}:{settings.api_port}", push=settings.push_address)
        try:
            await asyncio.gather(*serving)
        finally:
            for task in own:
                task.cancel()
            await asyncio.wait(own)
    await push.stop()


@contextlib.asynccontextmanager
async def _in_cluster(
    cluster: WebhookSettings | None, settings: ControlPlaneSettings, log: FilteringBoundLogger
) -> AsyncIterator[InCluster | None]:
    """Yield what is done in the cluster, ready to be served; None where none was asked for."""
    if cluster is None:
        yield None
        return
    # Imported here: its client is only for who runs in a cluster.
    from control_plane.kubernetes_client import KubeConfigError, connect  # noqa: PLC0415
    from control_plane.webhook.running import InCluster  # noqa: PLC0415

    kubernetes = None
    try:
        kubernetes = await connect(None, os.environ)
    except KubeConfigError:
        if cluster.self_managed or cluster.token_review:
            raise
    try:
        inside = InCluster(cluster, kubernetes, data_dir=settings.data_dir, now=_now, log=log)
        await inside.prepare()
        yield inside
    finally:
        if kubernetes is not None:
            await kubernetes.close()


def _own_tls(inside: InCluster | None) -> PushTls | None:
    files = inside.own_files if inside else None
    return PushTls(files.certificate, files.key) if files else None


def _may_join(gate: Gate, inside: InCluster | None) -> MayJoin:
    """Return what knows tokens of ours, and service accounts' where those are asked for."""
    accounts = inside.accounts if inside else None

    async def may_join(token: str, source: str) -> Pass | None:
        if accounts is None or not is_signed(token):
            return Pass() if await gate.may_join(token, source) else None
        holder = await accounts.holder(token, source)
        return Pass(holder.sidecar, holder.workload, holder.labels, every=POD_LOOKS) if holder else None

    return may_join


def _sealer(settings: ControlPlaneSettings) -> FernetSealer:
    return FernetSealer(key_source(os.environ.get(VARIABLE), settings.data_dir, secrets.token_bytes))


def _replica(settings: ControlPlaneSettings) -> str:
    """Return what people call this replica."""
    return os.environ.get("POD_NAME") or f"{socket.gethostname()}:{settings.api_port}"


def _courier(registry: Registry, series: Counter, log: FilteringBoundLogger) -> Courier:
    post = Post(lambda: registry.head.secrets, os.environ, time.time)
    courier = Courier(
        registry.outbox,
        post.send,
        now=_now,
        log=log,
        count=lambda result: series.labels(result).inc(),
    )
    # Each move is a revision, so what is to be told comes with one.
    registry.subscribe(lambda _: courier.wake())
    return courier


def _policy(head: Head) -> Policy:
    def compile_for(workload: str) -> Snapshot:
        return compile_snapshot(
            head.documents,
            workload,
            head.revision,
            consumer_keys=head.consumer_keys,
            key_salt=head.key_salt,
            purges=head.purges,
            progress=progress_of(head),
        )

    def alike(workload: str) -> tuple[Rank | None, ...]:
        # A snapshot depends on its workload only by the Policies and the Releases that name it.
        policies = head.documents.policies.values()
        named = [policy.target.workloads for policy in policies]
        named += [spec.match.workloads for spec in head.documents.releases.values() if spec.match.workloads]
        return tuple(rank(patterns, workload) for patterns in named)

    return Policy(head.revision, compile_for, head.secrets, alike)


def _compared(head: Head) -> dict[str, tuple[str, str]]:
    return {name: (spec.from_version, spec.to_version) for name, spec in head.documents.releases.items()}


def _now() -> datetime:
    return datetime.now(UTC)


def _http_server(app: ASGIApp) -> _ApiServer:
    return _ApiServer(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=API_STOP_S,
        )
    )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener
