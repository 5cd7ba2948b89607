"""A bucket for tests: moto with signature checks on. The interpreter is that of build/venv.

    bucket.py    serves until its standard input ends; its one line of output is JSON with the
                 endpoint and the environment that holds the key
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import urllib.request
from wsgiref.types import StartResponse, WSGIEnvironment

import boto3
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

REGION = "us-east-1"
POLICY = {"Version": "2012-10-17",
          "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}


class OneAtATime:
    """moto checks a condition and writes in two steps; S3 does both at once, and so does this."""

    def __init__(self) -> None:
        self.app = DomainDispatcherApplication(create_backend_app)
        self.lock = threading.Lock()

    def __call__(self, environment: WSGIEnvironment, start: StartResponse) -> list[bytes]:
        with self.lock:
            return [b"".join(self.app(environment, start))]


def start_moto() -> tuple[str, dict[str, str]]:
    """The endpoint of a service with the bucket rt-test, and an environment with the key by which
    it checks signatures from now on."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, OneAtATime(), threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    admin = {"endpoint_url": endpoint, "region_name": REGION, "aws_access_key_id": "admin",
             "aws_secret_access_key": "admin"}
    iam = boto3.client("iam", **admin)
    iam.create_user(UserName="rt")
    key = iam.create_access_key(UserName="rt")["AccessKey"]
    iam.put_user_policy(UserName="rt", PolicyName="s3", PolicyDocument=json.dumps(POLICY))
    boto3.client("s3", **admin).create_bucket(Bucket="rt-test")
    request = urllib.request.Request(f"{endpoint}/moto-api/reset-auth", b"0",
                                     {"Content-Type": "text/plain"})
    urllib.request.urlopen(request).read()
    return endpoint, {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_REGION": REGION,
                      "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}


def main() -> None:
    endpoint, environment = start_moto()
    print(json.dumps({"endpoint": endpoint, "environment": environment}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
