# Envoy for registries of one's own. The official image is used as it is, pinned by version and digest:
#   docker buildx imagetools inspect envoyproxy/envoy:distroless-v1.40.0
ARG ENVOY_VERSION=v1.40.0
ARG ENVOY_DIGEST
FROM envoyproxy/envoy:distroless-${ENVOY_VERSION}@${ENVOY_DIGEST}
USER 10001:10001
ENTRYPOINT ["envoy"]
