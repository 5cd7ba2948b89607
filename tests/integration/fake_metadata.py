"""A cloud's metadata server for a test: it answers what the test says, and counts the requests."""

from __future__ import annotations

import http.server
import threading
import time


class FakeMetadata:
    """`pages` maps a path to (status, body); every other path is 404. `delay_s` slows all."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, str]] = {}
        self.seen: dict[str, int] = {}
        self.delay_s = 0.0
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                time.sleep(owner.delay_s)  # The server that is played is slow.
                path = self.path.split("?")[0]
                owner.seen[path] = owner.seen.get(path, 0) + 1
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, body = owner.pages.get(path, (404, ""))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Metadata-Flavor", "Google")
                self.end_headers()
                self.wfile.write(body.encode())

            do_GET = do_PUT = do_POST = answer

            def log_message(self, *args: object) -> None:
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *args: object) -> None:
                pass  # The client gave up on a slow answer.

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
