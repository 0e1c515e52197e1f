"""A client's end of each transport, written from the public page and not from the server's code."""

from __future__ import annotations

import hashlib
import struct
import zlib

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

TAGS = {"abridged": b"\xef" * 4, "intermediate": b"\xee" * 4, "padded intermediate": b"\xdd" * 4}


class ClientTransport:
    """Frames payloads for one server connection; ``opening`` is what goes first."""

    def __init__(
        self,
        kind: str,
        *,
        obfuscated: bool = False,
        secret: bytes = b"",
        dc_id: int = 2,
        header: bytes | None = None,
    ) -> None:
        self.kind = kind
        self.seq = 0
        self.buffer = b""
        self.encryptor: CipherContext | None = None
        self.decryptor: CipherContext | None = None
        self.opening = b"" if kind == "full" else TAGS[kind][: 1 if kind == "abridged" else 4]
        if obfuscated:
            self.opening = self._obfuscate(header or bytes(range(1, 65)), secret, dc_id)

    def _obfuscate(self, header: bytes, secret: bytes, dc_id: int) -> bytes:
        def stream(material: bytes) -> CipherContext:
            key = hashlib.sha256(material[:32] + secret).digest() if secret else material[:32]
            return Cipher(algorithms.AES256(key), modes.CTR(material[32:48])).encryptor()

        header = header[:56] + TAGS[self.kind] + struct.pack("<h", dc_id) + header[62:]
        self.encryptor = stream(header[8:56])
        self.decryptor = stream(bytes(reversed(header[8:56])))
        return header[:56] + self.encryptor.update(header)[56:]

    def pack(self, payload: bytes, *, quick_ack: bool = False, padding: bytes = b"") -> bytes:
        bit = 0x80000000 if quick_ack else 0
        if self.kind == "abridged":
            words = len(payload) // 4
            mark = 0x80 if quick_ack else 0
            head = (
                bytes([words | mark]) if words < 0x7F else bytes([0x7F | mark]) + struct.pack("<I", words)[:3]
            )
            frame = head + payload
        elif self.kind == "full":
            frame = struct.pack("<II", len(payload) + 12, self.seq) + payload
            frame += struct.pack("<I", zlib.crc32(frame))
            self.seq += 1
        else:
            frame = struct.pack("<I", len(payload) + len(padding) | bit) + payload + padding
        return self.encryptor.update(frame) if self.encryptor else frame

    def receive(self, data: bytes) -> list[bytes | int]:
        """Return payloads (padding still behind them) and quick-ack tokens as integers."""
        self.buffer += self.decryptor.update(data) if self.decryptor else data
        found: list[bytes | int] = []
        while self.buffer:
            first = self.buffer[0]
            if self.kind == "abridged" and first & 0x80:
                found.append(struct.unpack(">I", self._take(4))[0])
            elif self.kind == "abridged":
                words = self._take(1)[0] if first < 0x7F else struct.unpack("<I", self._take(4))[0] >> 8
                found.append(self._take(words * 4))
            elif self.kind == "full":
                size, seq = struct.unpack_from("<II", self.buffer)
                frame = self._take(size)
                assert struct.unpack("<I", frame[-4:])[0] == zlib.crc32(frame[:-4])
                found.append(frame[8:-4])
                assert seq == len([f for f in found if isinstance(f, bytes)]) - 1
            else:
                (size,) = struct.unpack("<I", self._take(4))
                found.append(size if size & 0x80000000 else self._take(size))
        return found

    def _take(self, count: int) -> bytes:
        assert len(self.buffer) >= count
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken
