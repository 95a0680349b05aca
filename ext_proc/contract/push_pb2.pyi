from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Report(_message.Message):
    __slots__ = ("hello", "ack", "nack")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    NACK_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    ack: Ack
    nack: Nack
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., nack: _Optional[_Union[Nack, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("subscriber_id", "workload", "labels", "build", "in_force")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SUBSCRIBER_ID_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    BUILD_FIELD_NUMBER: _ClassVar[int]
    IN_FORCE_FIELD_NUMBER: _ClassVar[int]
    subscriber_id: str
    workload: str
    labels: _containers.ScalarMap[str, str]
    build: str
    in_force: str
    def __init__(self, subscriber_id: _Optional[str] = ..., workload: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., build: _Optional[str] = ..., in_force: _Optional[str] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("version", "oldest_in_use")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    OLDEST_IN_USE_FIELD_NUMBER: _ClassVar[int]
    version: str
    oldest_in_use: str
    def __init__(self, version: _Optional[str] = ..., oldest_in_use: _Optional[str] = ...) -> None: ...

class Nack(_message.Message):
    __slots__ = ("version", "reason")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    version: str
    reason: str
    def __init__(self, version: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class Snapshot(_message.Message):
    __slots__ = ("version", "revision", "content")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    version: str
    revision: int
    content: bytes
    def __init__(self, version: _Optional[str] = ..., revision: _Optional[int] = ..., content: _Optional[bytes] = ...) -> None: ...
