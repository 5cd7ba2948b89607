"""The metadata service of one instance: metadata.py DIRECTORY [KEY=VALUE...], inside its network
namespace. A session token opens it, as IMDSv2 asks for. The file DIRECTORY/notice is the body of a
spot interruption; the variables are the credentials of the instance's role, none: it has none."""

from __future__ import annotations

import http.server
import json
import pathlib
import sys

ROOT = pathlib.Path(sys.argv[1])
KEYS = dict(argument.split("=", 1) for argument in sys.argv[2:])
ROLE = "/latest/meta-data/iam/security-credentials/"


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, status: int, body: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_PUT(self) -> None:
        self.answer(200 if self.path == "/latest/api/token" else 404, "session")

    def do_GET(self) -> None:
        if self.headers.get("X-aws-ec2-metadata-token") != "session":
            return self.answer(401, "")
        notice = ROOT / "notice"
        if self.path == "/latest/meta-data/spot/instance-action" and notice.exists():
            return self.answer(200, notice.read_text())
        if self.path == ROLE and KEYS:
            return self.answer(200, "role")
        if self.path == ROLE + "role" and KEYS:
            return self.answer(200, json.dumps({
                "Code": "Success", "Type": "AWS-HMAC", "Token": "session",
                "AccessKeyId": KEYS["AWS_ACCESS_KEY_ID"],
                "SecretAccessKey": KEYS["AWS_SECRET_ACCESS_KEY"],
                "Expiration": "2099-01-01T00:00:00Z"}))
        return self.answer(404, "")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


http.server.ThreadingHTTPServer(("169.254.169.254", 80), Handler).serve_forever()
