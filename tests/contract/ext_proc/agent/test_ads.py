"""The discovery service over real gRPC: a scripted Envoy that checks every message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import structlog
from envoy.service.discovery.v3 import ads_pb2_grpc, discovery_pb2
from google.rpc import status_pb2

from ext_proc.agent.ads import DiscoveryServer, RefusedError
from ext_proc.agent.render.clusters import CLUSTER_TYPE
from ext_proc.agent.render.routes import ROUTES_NAME, ROUTES_TYPE
from ext_proc.agent.render.secrets import SECRET_TYPE
from ext_proc.agent.resources import ResourceSet, resource_set


def served(*clusters: str) -> ResourceSet:
    """Return a set with these clusters, no secret and an empty route table."""
    return resource_set(
        {
            CLUSTER_TYPE: {name: {"name": name} for name in clusters},
            SECRET_TYPE: {},
            ROUTES_TYPE: {ROUTES_NAME: {"name": ROUTES_NAME}},
        }
    )


class ScriptedEnvoy:
    """One ADS stream. Every expectation is about the very next message."""

    def __init__(self, stream: grpc.aio.StreamStreamCall) -> None:
        self._stream = stream

    async def say(self, type_url: str, *names: str, nonce: str = "", error: str = "") -> None:
        """Send one request: a subscription, an ACK or a NACK."""
        request = discovery_pb2.DiscoveryRequest(
            type_url=type_url, resource_names=names, response_nonce=nonce
        )
        if error:
            request.error_detail.CopyFrom(status_pb2.Status(code=3, message=error))
        await self._stream.write(request)

    async def expect(self, type_url: str, number: int) -> Any:
        """Read the next response; check its type, its number of resources, and that it has a version."""
        async with asyncio.timeout(5):
            response = await self._stream.read()
        assert (response.type_url, len(response.resources)) == (type_url, number)
        assert response.version_info
        assert response.nonce
        return response


@asynccontextmanager
async def discovery(folder: Path) -> AsyncIterator[tuple[DiscoveryServer, grpc.aio.Channel]]:
    """Serve discovery on a socket and connect to it."""
    service = DiscoveryServer(structlog.get_logger())
    server = grpc.aio.server()
    ads_pb2_grpc.add_AggregatedDiscoveryServiceServicer_to_server(service, server)
    server.add_insecure_port(f"unix:{folder}/ads.sock")
    await server.start()
    async with grpc.aio.insecure_channel(f"unix:{folder}/ads.sock") as channel:
        yield service, channel
    await server.stop(0)


def connect(channel: grpc.aio.Channel) -> ScriptedEnvoy:
    """Open one ADS stream."""
    return ScriptedEnvoy(ads_pb2_grpc.AggregatedDiscoveryServiceStub(channel).StreamAggregatedResources())


async def test_acceptance_waits_for_every_ack(tmp_path: Path) -> None:
    """What is published is accepted once Envoy, connected later, has acknowledged each type asked about."""
    async with discovery(tmp_path) as (service, channel):
        service.publish(served("a"))
        waiting = asyncio.create_task(service.accepted([CLUSTER_TYPE, ROUTES_TYPE]))
        envoy = connect(channel)
        await envoy.say(CLUSTER_TYPE)
        clusters = await envoy.expect(CLUSTER_TYPE, 1)
        await envoy.say(CLUSTER_TYPE, nonce=clusters.nonce)
        await envoy.say(ROUTES_TYPE, ROUTES_NAME)
        routes = await envoy.expect(ROUTES_TYPE, 1)
        assert not waiting.done()
        await envoy.say(ROUTES_TYPE, ROUTES_NAME, nonce=routes.nonce)
        await asyncio.wait_for(waiting, 5)
        await asyncio.wait_for(service.accepted([SECRET_TYPE], if_subscribed=True), 5)


async def test_change_is_pushed_and_refusal_raises(tmp_path: Path) -> None:
    """A change reaches Envoy unasked; its NACK raises with the reason; what comes next is sent again."""
    async with discovery(tmp_path) as (service, channel):
        service.publish(served())
        envoy = connect(channel)
        await envoy.say(CLUSTER_TYPE)
        empty = await envoy.expect(CLUSTER_TYPE, 0)
        await envoy.say(CLUSTER_TYPE, nonce=empty.nonce)
        await asyncio.wait_for(service.accepted([CLUSTER_TYPE]), 5)
        service.publish(served("bad"))
        waiting = asyncio.create_task(service.accepted([CLUSTER_TYPE]))
        bad = await envoy.expect(CLUSTER_TYPE, 1)
        await envoy.say(CLUSTER_TYPE, nonce=bad.nonce, error="bad cluster")
        with pytest.raises(RefusedError, match="bad cluster"):
            await asyncio.wait_for(waiting, 5)
        service.publish(served())
        again = await envoy.expect(CLUSTER_TYPE, 0)
        assert again.version_info == empty.version_info
        assert again.nonce != empty.nonce


async def test_new_envoy_gets_everything(tmp_path: Path) -> None:
    """A second stream is served from the start, whatever nonce it brings; then it is the one that counts."""
    async with discovery(tmp_path) as (service, channel):
        service.publish(served("a"))
        first = connect(channel)
        await first.say(CLUSTER_TYPE)
        await first.say(CLUSTER_TYPE, nonce=(await first.expect(CLUSTER_TYPE, 1)).nonce)
        await asyncio.wait_for(service.accepted([CLUSTER_TYPE]), 5)
        second = connect(channel)
        await second.say(CLUSTER_TYPE, nonce="17")
        response = await second.expect(CLUSTER_TYPE, 1)
        waiting = asyncio.create_task(service.accepted([CLUSTER_TYPE]))
        await second.say(CLUSTER_TYPE, nonce=response.nonce)
        await asyncio.wait_for(waiting, 5)
        assert service.connected
