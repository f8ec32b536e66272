"""Kafka's variable-length integers: zigzag, seven bits a byte, least significant first."""


def write_varint(output: bytearray, value: int) -> None:
    """Serves both of Kafka's widths: a value of 32 bits looks the same in either."""
    pending = value << 1 if value >= 0 else ((-value) << 1) - 1
    while pending > 0x7F:
        output.append(0x80 | pending & 0x7F)
        pending >>= 7
    output.append(pending)


def varint_size(value: int) -> int:
    pending = value << 1 if value >= 0 else ((-value) << 1) - 1
    return max(1, (pending.bit_length() + 6) // 7)
