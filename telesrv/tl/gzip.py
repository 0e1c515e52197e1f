"""Inflates gzip_packed data within a bound."""

from __future__ import annotations

import zlib

from telesrv.tl.errors import LimitExceeded, TLError

GZIP_PACKED = 0x3072CFA1
_AUTO_HEADER = zlib.MAX_WBITS | 32


def inflate(packed: bytes, limit: int) -> bytes:
    """Returns the whole content of a gzip or zlib stream, never having built more than `limit` bytes of it.

    Raises LimitExceeded when there is more, TLError when the stream is broken, unfinished or followed by
    bytes.

    *Spec: Service Messages*
    """
    stream = zlib.decompressobj(_AUTO_HEADER)
    try:
        data = stream.decompress(packed, max(limit, 0) + 1)
    except zlib.error as error:
        raise TLError(f"gzip_packed: {error}") from None
    if len(data) > limit:
        raise LimitExceeded(f"gzip_packed inflates to more than {limit} bytes")
    if not stream.eof or stream.unused_data:
        raise TLError("gzip_packed is unfinished or has trailing bytes")
    return data
