"""Copying runs of bytes within compiled code: memcpy, which numba does not offer.

A loop over bytes is ten times slower for records of a hundred. Nothing is checked here: both runs must lie within their
arrays, as they do once a record was read to its end.
"""

from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic


def _copy_bytes(typing_context: Any, output: Any, at: Any, data: Any, start: Any, count: Any) -> Any:
    """`output[at : at + count] = data[start : start + count]`, of two flat arrays of bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        output_type, _, data_type, _, _ = signature.args
        output_value, at_value, data_value, start_value, count_value = arguments
        target = context.make_array(output_type)(context, builder, output_value)
        source = context.make_array(data_type)(context, builder, data_value)
        memcpy: Any = cgutils.raw_memcpy
        memcpy(
            builder,
            builder.gep(target.data, [at_value]),
            builder.gep(source.data, [start_value]),
            count_value,
            1,
        )
        return context.get_dummy_value()

    return types.void(output, types.int64, data, types.int64, types.int64), generate


# Called with the five values behind the context, which only the compiler knows.
copy_bytes: Any = intrinsic(_copy_bytes)
