"""Runs contract_s3 against moto with signature checks on, and through a proxy that makes faults;
then compares our signer with botocore's. The interpreter is that of build/venv (moto, boto3).

    s3.py BIN_DIRECTORY
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import socket
import struct
import subprocess
import sys
import threading

import botocore.auth
import botocore.awsrequest
import botocore.credentials
from bucket import start_moto


class FaultProxy:
    """Passes connections on to the service, and does every third answer harm: the request is
    refused with 503 unseen, or carried out and its answer cut, reset, delayed or lost."""

    def __init__(self, port: int, seed: int) -> None:
        self.target = port
        self.random = random.Random(seed)
        self.done: dict[str, int] = {}
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.endpoint = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client: socket.socket) -> None:
        """The requests of one connection, each on a connection of its own to the service."""
        try:
            stream = client.makefile("rb")
            while request := read_message(stream):
                fault = self.random.choice(["none"] * 8 + ["slow_down", "cut", "reset", "delay"])
                self.done[fault] = self.done.get(fault, 0) + 1
                if fault == "slow_down":
                    body = b"<Error><Code>SlowDown</Code><Message>Wait</Message></Error>"
                    client.sendall(b"HTTP/1.1 503 Slow Down\r\nContent-Length: %d\r\n\r\n%b"
                                   % (len(body), body))
                    continue
                answer = self.ask(request)
                if fault in ("cut", "reset"):
                    client.sendall(answer[:self.random.randrange(len(answer))])
                    if fault == "reset":  # Closing with a reset instead of an end.
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                          struct.pack("ii", 1, 0))
                    return
                for at in range(0, len(answer), 65_536 if fault == "delay" else len(answer)):
                    client.sendall(answer[at:at + 65_536] if fault == "delay" else answer[at:])
        except OSError:
            pass
        finally:
            client.close()

    def ask(self, request: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.target)) as upstream:
            upstream.sendall(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            return b"".join(iter(lambda: upstream.recv(65_536), b""))


def read_message(stream) -> bytes:
    """One request with its body; empty at the end of the connection."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = stream.readline()
        if not line:
            return b""
        head += line
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return head + stream.read(int(value))
    return head


def random_text(draw: random.Random, size: int) -> str:
    return "".join(draw.choice("abz/09-_.~ %+=&:,;!*'()@$?#äሴ\"<>") for _ in range(size))


def compare_signers(program: pathlib.Path, count: int, seed: int) -> None:
    """Our signature of random requests against that of botocore's S3SigV4Auth."""
    draw = random.Random(seed)
    lines, expected = [], []
    for _ in range(count):
        method = draw.choice(["GET", "PUT", "POST", "DELETE", "HEAD"])
        path = "/" + random_text(draw, draw.randrange(20)).replace("?", "").replace("#", "")
        query = {random_text(draw, draw.randrange(1, 8)): random_text(draw, draw.randrange(9))
                 for _ in range(draw.randrange(4))}
        body = draw.randbytes(draw.randrange(64))
        token = random_text(draw, 12).strip().encode("ascii", "ignore").decode() \
            if draw.random() < 0.4 else ""
        host = draw.choice(["bucket.s3.amazonaws.com", "127.0.0.1:5000", "s3.example.org"])
        headers = {"x-amz-meta-note": f"a  b {draw.randrange(99)}"} if draw.random() < 0.5 else {}
        region = draw.choice(["us-east-1", "eu-central-1"])
        quote = botocore.compat.quote
        url = f"http://{host}{quote(path, safe='/~')}"
        if query:
            url += "?" + "&".join(f"{quote(k, safe='~')}={quote(v, safe='~')}"
                                  for k, v in query.items())
        request = botocore.awsrequest.AWSRequest(method, url, dict(headers), body)
        request.context["signing"] = {}
        request.context["payload_signing_enabled"] = True
        auth = botocore.auth.S3SigV4Auth(
            botocore.credentials.Credentials("AKID", "secret/+key", token or None), "s3", region)
        auth.add_auth(request)
        expected.append(request.headers["Authorization"])
        lines.append(json.dumps({
            "method": method, "host": host, "path": path, "query": query, "headers": headers,
            "body": body.hex(), "token": token, "region": region,
            "time": request.headers["X-Amz-Date"]}))
    out = subprocess.run([program], input="\n".join(lines) + "\n", text=True, check=True,
                         capture_output=True).stdout.splitlines()
    assert len(out) == count
    for line, ours, theirs in zip(lines, out, expected):
        assert ours == theirs, f"{line}\nours   {ours}\ntheirs {theirs}"
    print(f"signer: {count} random requests signed as botocore does")


def main() -> int:
    binaries = pathlib.Path(sys.argv[1])
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    compare_signers(binaries / "sign_lines", 800, seed)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    endpoint, credentials = start_moto()
    os.environ.update(credentials)
    proxy = FaultProxy(int(endpoint.rpartition(":")[2]), seed)
    environment = {**os.environ, "RT_TEST_S3": endpoint, "RT_TEST_S3_FAULTY": proxy.endpoint,
                   "HOME": "/nonexistent"}
    code = subprocess.run([binaries / "contract_s3"], env=environment, check=False).returncode
    print(f"faults: {dict(sorted(proxy.done.items()))}")
    harmful = [proxy.done.get(fault, 0) for fault in ("slow_down", "cut", "reset")]
    return code or int(min(harmful) == 0)


if __name__ == "__main__":
    sys.exit(main())
