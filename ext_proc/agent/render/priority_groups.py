"""Envoy's priority groups: a route whose cluster is chosen anew for each attempt, by the call's own plan.

The types are newer than the stubs that we install (xds-protos 1.85), so what is needed of them is written
here: one message, and one field of `RetryPolicy`. See
https://www.envoyproxy.io/docs/envoy/latest/configuration/http/cluster_specifier/cluster_specifier.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, wrappers_pb2

from ext_proc.contract.plans import PLAN

Json = dict[str, Any]
PACKAGE: Final = "envoy.extensions.router.cluster_specifiers.priority_group.v3"
SPECIFIER: Final = f"type.googleapis.com/{PACKAGE}.PriorityGroupClusterSpecifier"
NAME: Final = "outrigger_plan"
# Field 14 of RetryPolicy, `refresh_cluster_on_retry`: true (tag, then the varint).
REFRESH_CLUSTER_ON_RETRY: Final = bytes((14 << 3, 1))
_TEXT: Final = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
_MESSAGE: Final = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
_ONE: Final = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
_MANY: Final = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED


def _register() -> None:
    """Add the messages to protobuf's pool, as an import of generated stubs would."""
    file = descriptor_pb2.FileDescriptorProto(
        name="envoy/extensions/router/cluster_specifiers/priority_group/v3/priority_group.proto",
        package=PACKAGE,
        syntax="proto3",
        dependency=[wrappers_pb2.DESCRIPTOR.name],
    )
    weight = file.message_type.add(name="ClusterWeight")
    weight.field.add(name="cluster_name", number=1, type=_TEXT, label=_ONE)
    weight.field.add(
        name="weight", number=2, type=_MESSAGE, label=_ONE, type_name=".google.protobuf.UInt32Value"
    )
    group = file.message_type.add(name="PriorityGroup")
    group.field.add(name="name", number=1, type=_TEXT, label=_ONE)
    group.field.add(
        name="clusters", number=2, type=_MESSAGE, label=_MANY, type_name=f".{PACKAGE}.ClusterWeight"
    )
    specifier = file.message_type.add(name="PriorityGroupClusterSpecifier")
    specifier.field.add(
        name="priority_groups", number=1, type=_MESSAGE, label=_MANY, type_name=f".{PACKAGE}.PriorityGroup"
    )
    specifier.field.add(name="override_metadata_namespace", number=2, type=_TEXT, label=_ONE)
    descriptor_pool.Default().AddSerializedFile(file.SerializeToString())


_register()


def by_plan(route: Json) -> Json:
    """Return `route` with its cluster chosen by the call's plan; without one it stays as it was."""
    action = dict(route["route"])
    cluster = action.pop("cluster")
    action["inline_cluster_specifier_plugin"] = {
        "extension": {
            "name": NAME,
            "typed_config": {
                "@type": SPECIFIER,
                "override_metadata_namespace": PLAN,
                "priority_groups": [{"name": "0", "clusters": [{"cluster_name": cluster, "weight": 1}]}],
            },
        }
    }
    return {**route, "route": action}


def refresh_clusters(route: Any) -> None:
    """Have each attempt of `route` (a Route), if it is a planned one, choose its cluster anew."""
    if route.route.HasField("inline_cluster_specifier_plugin"):
        route.route.retry_policy.MergeFromString(REFRESH_CLUSTER_ON_RETRY)
