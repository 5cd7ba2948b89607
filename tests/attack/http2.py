"""HTTP/2 frames by hand: enough of RFC 9113 and RFC 7541 to call gRPC, and to break both rules."""

from __future__ import annotations

import pathlib
import socket
import ssl
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    0, 1, 3, 4, 6, 7, 8, 9)
END_STREAM, ACK, END_HEADERS = 1, 1, 4
INITIAL_WINDOW_SIZE = 4  # A setting.
WINDOW, FRAME_MAX = 65_535, 16_384
STATIC_TABLE_SIZE = 61  # RFC 7541, appendix A.
# The names of that table which a gRPC server uses in its answers.
STATIC = {8: (":status", "200"), 14: (":status", "500"), 31: ("content-type", "")}


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name: str, value: str, indexed: bool = False) -> bytes:
    """A header field, without Huffman coding; `indexed`: the peer's table remembers it."""
    out = b"\x40" if indexed else b"\x00"
    for text in (name.encode(), value.encode()):
        assert len(text) < 127
        out += bytes([len(text)]) + text
    return out


def request_headers(path: str, indexed: bool = False) -> bytes:
    fields = [(":method", "POST"), (":scheme", "https"), (":path", path), (":authority", "rt"),
              ("te", "trailers"), ("content-type", "application/grpc")]
    return b"".join(literal(name, value, indexed) for name, value in fields)


# What the fields of request_headers(…, indexed=True) are afterwards: the newest has the index 62.
REMEMBERED = bytes(0x80 | (STATIC_TABLE_SIZE + 6 - k) for k in range(6))


class HeaderReader:
    """The peer's header fields; its table lives as long as the connection."""

    def __init__(self) -> None:
        self.table: list[tuple[str, str]] = []

    def read(self, block: bytes) -> dict[str, str]:
        fields: dict[str, str] = {}
        at = 0

        def number(bits: int) -> int:
            nonlocal at
            value = block[at] & ((1 << bits) - 1)
            at += 1
            if value == (1 << bits) - 1:
                shift = 0
                while True:
                    byte = block[at]
                    at += 1
                    value += (byte & 127) << shift
                    shift += 7
                    if byte < 128:
                        break
            return value

        def text() -> str:
            nonlocal at
            huffman = block[at] & 128
            size = number(7)
            at += size
            raw = block[at - size:at]
            return "(huffman)" if huffman else raw.decode(errors="replace")

        def entry(index: int) -> tuple[str, str]:
            if index <= STATIC_TABLE_SIZE:
                return STATIC.get(index, (f"(static {index})", ""))
            return self.table[index - STATIC_TABLE_SIZE - 1]

        while at < len(block):
            first = block[at]
            if first & 0x80:
                name, value = entry(number(7))
            elif first & 0xe0 == 0x20:
                number(5)
                continue
            else:
                index = number(6 if first & 0x40 else 4)
                name = entry(index)[0] if index else text()
                value = text()
                if first & 0x40:
                    self.table.insert(0, (name, value))
            fields[name] = value
        return fields


def tls_context(credentials: pathlib.Path | None, ca: pathlib.Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(ca))
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    if credentials is not None:
        context.load_cert_chain(credentials / "cert.pem", credentials / "key.pem")
    return context


class Connection:
    """One connection with TLS and the preface sent. Errors are ssl.SSLError and OSError."""

    def __init__(self, address: str, context: ssl.SSLContext, timeout: float = 10) -> None:
        host, port = address.rsplit(":", 1)
        plain = socket.create_connection((host, int(port)), timeout=timeout)
        try:
            self.socket = context.wrap_socket(plain, server_hostname="rt")
        except BaseException:
            plain.close()
            raise
        self.headers = HeaderReader()
        self.rest = b""
        self.next_stream = 1
        self.first_window = WINDOW
        self.windows = {0: WINDOW}  # Of the connection, and of each stream that is being sent.
        self.statuses: dict[int, int] = {}
        self.send(PREFACE + frame(SETTINGS, 0, 0))

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def receive(self, size: int) -> bytes:
        while len(self.rest) < size:
            more = self.socket.recv(65536)
            if not more:
                raise ConnectionError("closed by the server")
            self.rest += more
        taken, self.rest = self.rest[:size], self.rest[size:]
        return taken

    def next_frame(self) -> tuple[int, int, int, bytes]:
        head = self.receive(9)
        size = int.from_bytes(head[:3], "big")
        return head[3], head[4], int.from_bytes(head[5:], "big"), self.receive(size)

    def begin(self, path: str, message: bytes = b"", claimed: int | None = None) -> int:
        """Sends an unary request, whose length may be `claimed` instead of its own; its stream."""
        stream = self.next_stream
        self.next_stream += 2
        size = len(message) if claimed is None else claimed
        body = b"\x00" + struct.pack(">I", size) + message
        pieces = [body[at:at + FRAME_MAX] for at in range(0, len(body), FRAME_MAX)]
        self.windows[stream] = self.first_window
        self.send(frame(HEADERS, END_HEADERS, stream, request_headers(path)))
        for number, piece in enumerate(pieces):
            self.wait_for_window(stream, len(piece))
            last = number == len(pieces) - 1 and claimed is None
            self.send(frame(DATA, END_STREAM if last else 0, stream, piece))
        return stream

    def begin_many(self, path: str, message: bytes, count: int) -> None:
        """Sends `count` equal requests at once, as a client library does whose threads all call."""
        body = b"\x00" + struct.pack(">I", len(message)) + message
        out = []
        for number in range(count):
            stream = self.next_stream
            self.next_stream += 2
            self.windows[stream] = self.first_window
            fields = request_headers(path, indexed=True) if number == 0 else REMEMBERED
            out.append(frame(HEADERS, END_HEADERS, stream, fields) +
                       frame(DATA, END_STREAM, stream, body))
        self.windows[0] -= count * len(body)
        self.send(b"".join(out))

    def wait_for_window(self, stream: int, size: int) -> None:
        """Reads until the server takes `size` more bytes of the stream."""
        while min(self.windows[0], self.windows[stream]) < size and not self.ended(stream):
            self.take(*self.next_frame())
        self.windows[0] -= size
        self.windows[stream] -= size

    def ended(self, stream: int) -> bool:
        return stream in self.statuses

    def take(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        """Does what a frame asks for, and remembers the status that it may bring."""
        if kind == SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                name, value = struct.unpack(">HI", payload[at:at + 6])
                if name == INITIAL_WINDOW_SIZE:
                    for one in self.windows:
                        self.windows[one] += value - self.first_window if one else 0
                    self.first_window = value
            self.send(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, payload))
        elif kind == DATA and payload:  # Of many answers together: the connection takes more.
            self.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", len(payload))))
        elif kind == WINDOW_UPDATE:
            self.windows[number] = (self.windows.get(number, self.first_window) +
                                    int.from_bytes(payload, "big"))
        elif kind == GOAWAY:
            raise ConnectionError("the server goes away")
        elif kind == RST_STREAM and number in self.windows and not self.ended(number):
            raise ConnectionError("the server reset the stream")
        elif kind == HEADERS:
            fields = self.headers.read(payload)
            if flags & END_STREAM:
                self.statuses[number] = int(fields.get("grpc-status", "-1"))

    def call(self, path: str, message: bytes = b"", claimed: int | None = None) -> int:
        """An unary call; returns the gRPC status."""
        stream = self.begin(path, message, claimed)
        while not self.ended(stream):
            self.take(*self.next_frame())
        self.windows.pop(stream, None)
        return self.statuses.pop(stream)


def bytes_field(number: int, value: bytes) -> bytes:
    """A field of a protobuf message."""
    size, length = len(value), b""
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + value


def number_field(number: int, value: int) -> bytes:
    """A field of a protobuf message: an unsigned integer, or a signed one from 0 on."""
    out = bytes([number << 3])
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])
