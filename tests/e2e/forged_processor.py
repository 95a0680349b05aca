"""A processor that decides every request for a route that does not exist: `… SOCKET`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

import grpc
from envoy.config.core.v3 import base_pb2
from envoy.service.ext_proc.v3 import external_processor_pb2 as ext_proc
from envoy.service.ext_proc.v3 import external_processor_pb2_grpc as ext_proc_grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from ext_proc.contract.headers import ROUTE


class Forged(ext_proc_grpc.ExternalProcessorServicer):  # type: ignore[misc]
    """Names the unknown route at the request's body."""

    async def Process(
        self, requests: AsyncIterator[ext_proc.ProcessingRequest], context: object
    ) -> AsyncIterator[ext_proc.ProcessingResponse]:
        """Serve one HTTP request."""
        header = base_pb2.HeaderValue(key=ROUTE, raw_value=b"nobody.json.0123456789")
        option = base_pb2.HeaderValueOption(
            header=header, append_action=base_pb2.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
        )
        common = ext_proc.CommonResponse(
            header_mutation=ext_proc.HeaderMutation(set_headers=[option]), clear_route_cache=True
        )
        async for request in requests:
            if request.WhichOneof("request") == "request_body":
                yield ext_proc.ProcessingResponse(request_body=ext_proc.BodyResponse(response=common))
            elif request.WhichOneof("request") == "request_headers":
                yield ext_proc.ProcessingResponse(request_headers=ext_proc.HeadersResponse())
            else:
                yield ext_proc.ProcessingResponse(response_headers=ext_proc.HeadersResponse())


async def serve(socket: str) -> None:
    """Serve for ever."""
    server = grpc.aio.server()
    ext_proc_grpc.add_ExternalProcessorServicer_to_server(Forged(), server)
    healthy = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
    await healthy.set("", health_pb2.HealthCheckResponse.SERVING)
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
