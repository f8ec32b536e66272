"""Record batches (magic 2): header, CRC, compression, decoding, validation and building."""
