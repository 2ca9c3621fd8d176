"""The params of a field in ``confluent/meta.proto``'s option: texts by name.

The option is an extension, so a descriptor in another pool only has it as raw bytes. It is read through the
schema's own files, which import that one; this needs no module of Confluent's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import-untyped]
from google.protobuf.descriptor_pool import DescriptorPool  # type: ignore[import-untyped]
from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]

_OPTION = "confluent.field_meta"


def meta_reader(pool: DescriptorPool) -> Callable[[FieldDescriptor], Mapping[str, str]]:
    """A function from a field to its ``params``; it returns none if the pool's files lack the option."""
    try:
        option = pool.FindExtensionByName(_OPTION)
        options = GetMessageClass(pool.FindMessageTypeByName("google.protobuf.FieldOptions"))
    except KeyError:
        return lambda _field: {}
    params = option.message_type.fields_by_name.get("params") if option.message_type else None
    if params is None or option.is_repeated or params.message_type is None:  # another file of that name
        return lambda _field: {}

    def read(field: FieldDescriptor) -> Mapping[str, str]:
        parsed = options.FromString(field.GetOptions().SerializeToString())
        if not parsed.HasExtension(option):
            return {}
        return {str(key): str(value) for key, value in parsed.Extensions[option].params.items()}

    return read
