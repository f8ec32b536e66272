"""Kafka's variable-length integers: zigzag, seven bits per byte, least significant first."""


def write_varint(output: bytearray, value: int) -> None:
    """For both of Kafka's widths: a 32-bit value has the same encoding in both."""
    pending = value << 1 if value >= 0 else ((-value) << 1) - 1
    while pending > 0x7F:
        output.append(0x80 | pending & 0x7F)
        pending >>= 7
    output.append(pending)


def varint_size(value: int) -> int:
    pending = value << 1 if value >= 0 else ((-value) << 1) - 1
    return max(1, (pending.bit_length() + 6) // 7)
