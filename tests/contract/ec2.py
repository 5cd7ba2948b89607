"""Runs contract_ec2 against moto behind a layer of faults, then reads with boto3 what was asked.

    ec2.py BIN_DIRECTORY
    ec2.py --serve [ADDRESS]    serves there (127.0.0.1) until its standard input ends; its one line
                                of output is JSON with the endpoint, the id of an image and the
                                environment that holds a key

The layer does what EC2 does and moto does not: client tokens, capacity, lists that lag. It is told
what to do by POST /faults with a JSON object (see `Faults`). GET /instances lists what it made for
client tokens: ids, whether they are there, their user data, addresses, key and profile. GET /left
is what is there of everything that rt may make (see `left`).
"""

from __future__ import annotations

import base64
import gc
import io
import json
import logging
import os
import pathlib
import random
import subprocess
import sys
import threading
import time
import urllib.parse
import xml.etree.ElementTree as ElementTree
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import boto3
from moto.ec2.models import ec2_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

REGION = "us-west-2"
ACCOUNT = "123456789012"  # The only one that moto has.
ERROR = ("<Response><Errors><Error><Code>{}</Code><Message>{}</Message></Error></Errors>"
         "<RequestID>r</RequestID></Response>")
# Faults that a client has to live through by itself, drawn when `noise` is set.
NOISE = ["throttle", "internal", "lost", "cut"]


class Faults:
    """What is wrong at the moment. `capacity`: machines by "zone/type/market", or "*" for all;
    `next`: faults of the next calls of an action; `noise`: so many of 100 calls fail; `lag_s`:
    lists show what was so long ago."""

    def __init__(self) -> None:
        self.capacity: dict[str, int] = {}
        self.next: dict[str, list[str]] = {}
        self.noise = 0
        self.lag_s = 0.0


class Ec2Layer:
    """A WSGI application before moto's."""

    def __init__(self, seed: int) -> None:
        self.moto = DomainDispatcherApplication(create_backend_app)
        self.lock = threading.Lock()
        self.faults = Faults()
        self.random = random.Random(seed)
        self.tokens: dict[str, tuple[str, bytes]] = {}
        self.zones: dict[str, str] = {}
        self.places: dict[str, tuple[str, str]] = {}  # Id -> (cluster, "zone/type/market").
        self.made: dict[str, float] = {}
        self.gone: dict[str, float] = {}
        self.facts: dict[str, dict[str, str]] = {}  # Id -> what GET /instances says of it.
        self.keys: dict[str, str] = {}  # Name -> public key.
        self.done: dict[str, int] = {}
        self.clients: dict[str, Any] = {}  # For GET /left: of "ec2" and "iam".

    def __call__(self, environment: WSGIEnvironment, start: StartResponse) -> list[bytes]:
        body = environment["wsgi.input"].read(int(environment.get("CONTENT_LENGTH") or 0))
        if environment["PATH_INFO"] == "/faults":
            with self.lock:
                self.faults = Faults()
                self.faults.__dict__.update(json.loads(body))
            start("200 OK", [("Content-Length", "2")])
            return [b"{}"]
        if environment["PATH_INFO"] == "/instances":
            with self.lock:
                answer = json.dumps([{"id": one, "there": one not in self.gone, **facts}
                                     for one, facts in self.facts.items()]).encode()
            start("200 OK", [("Content-Length", str(len(answer)))])
            return [answer]
        if environment["PATH_INFO"] == "/left":
            answer = json.dumps(left(**self.clients)).encode()
            start("200 OK", [("Content-Length", str(len(answer)))])
            return [answer]
        form = dict(urllib.parse.parse_qsl(body.decode(), keep_blank_values=True))
        with self.lock:
            fault = self.draw(form["Action"]) if "Action" in form else ""
            if fault:
                self.done[fault] = self.done.get(fault, 0) + 1
            if fault == "throttle":
                return self.refuse(start, 503, "RequestLimitExceeded")
            if fault == "internal":
                return self.refuse(start, 500, "InternalError")
            if fault in ("capacity", "quota", "auth", "bad"):
                code = {"capacity": "InsufficientInstanceCapacity", "quota": "VcpuLimitExceeded",
                        "auth": "UnauthorizedOperation", "bad": "InvalidParameterValue"}[fault]
                return self.refuse(start, 400, code)
            status, headers, answer = self.handle(environment, body, form)
        if fault == "slow":
            time.sleep(1.0)
        if fault == "lost":  # Carried out, and answered by a broken gateway.
            status, headers, answer = "502 Bad Gateway", [("Content-Type", "text/html")], b"<html>"
        if fault == "cut":
            answer = answer[:len(answer) // 2]
        headers = [(name, value) for name, value in headers if name.lower() != "content-length"]
        start(status, [*headers, ("Content-Length", str(len(answer)))])
        return [answer]

    def draw(self, action: str) -> str:
        queue = self.faults.next.get(action) or []
        if queue:
            return queue.pop(0)
        is_noisy = self.random.randrange(100) < self.faults.noise
        return self.random.choice(NOISE) if is_noisy else ""

    def refuse(self, start: StartResponse, status: int, code: str) -> list[bytes]:
        body = ERROR.format(code, "as the test asked").encode()
        start(f"{status} Refused", [("Content-Type", "text/xml"),
                                    ("Content-Length", str(len(body)))])
        return [body]

    def ask_moto(self, environment: WSGIEnvironment, body: bytes) -> tuple[str, list, bytes]:
        kept: list = []
        environment = {**environment, "wsgi.input": io.BytesIO(body)}
        answer = b"".join(self.moto(environment, lambda status, headers, *_:
                                    kept.extend([status, list(headers)])))
        return kept[0], kept[1], answer

    def handle(self, environment: WSGIEnvironment, body: bytes,
               form: dict[str, str]) -> tuple[str, list, bytes]:
        action = form.get("Action", "")
        if action == "RunInstances" and "ClientToken" in form:
            return self.run(environment, body, form)
        status, headers, answer = self.ask_moto(environment, body)
        if action == "TerminateInstances" and status.startswith("200"):
            for name, value in form.items():
                if name.startswith("InstanceId."):
                    self.gone.setdefault(value, time.monotonic())
        if action == "ImportKeyPair" and status.startswith("200"):
            key = base64.b64decode(form["PublicKeyMaterial"]).decode()
            self.keys[form["KeyName"]] = key
        if action == "DescribeInstances" and status.startswith("200"):
            answer = self.lagging(answer)
        return status, headers, answer

    def run(self, environment: WSGIEnvironment, body: bytes,
            form: dict[str, str]) -> tuple[str, list, bytes]:
        """With client tokens and capacity."""
        headers = [("Content-Type", "text/xml")]
        token = form["ClientToken"]
        if token in self.tokens:
            known, answer = self.tokens[token]
            if known == body.decode():
                return "200 OK", headers, answer
            return "400 Bad", headers, ERROR.format("IdempotentParameterMismatch", "").encode()
        cluster = tag_of(form, "rt-cluster-id")
        place = "/".join([self.zones.get(form.get("SubnetId", ""), "?"),
                          form.get("InstanceType", "?"),
                          form.get("InstanceMarketOptions.MarketType", "on-demand")])
        for key, most in self.faults.capacity.items():
            there = sum(1 for instance, (owner, where) in self.places.items()
                        if instance not in self.gone and owner == cluster and key in ("*", where))
            if key in ("*", place) and there >= most:
                return "500 No", headers, ERROR.format("InsufficientInstanceCapacity", "").encode()
        status, headers, answer = self.ask_moto(environment, body)
        if status.startswith("200"):
            instance = ElementTree.fromstring(answer).find(".//{*}instanceId").text
            self.tokens[token] = (body.decode(), answer)
            self.places[instance] = (cluster, place)
            self.made[instance] = time.monotonic()
            self.facts[instance] = self.facts_of(instance, form)
        return status, headers, answer

    def facts_of(self, instance: str, form: dict[str, str]) -> dict[str, str]:
        there = ec2_backends[ACCOUNT][REGION].get_instance(instance)
        return {"user_data": form.get("UserData", ""), "address": there.public_ip,
                "private_address": there.private_ip, "role": tag_of(form, "ray-node-type"),
                "cluster": tag_of(form, "ray-cluster-name"), "made_at": str(time.time()),
                "machine": tag_of(form, "rt-machine"),
                "public_key": self.keys.get(form.get("KeyName", ""), ""),
                "profile": form.get("IamInstanceProfile.Name", "")}

    def lagging(self, answer: bytes) -> bytes:
        """Without what was made, and with what was there, `lag_s` ago."""
        then = time.monotonic() - self.faults.lag_s
        root = ElementTree.fromstring(answer)
        for instances in root.findall(".//{*}instancesSet"):
            for item in list(instances):
                name = item.find("{*}instanceId").text
                state = item.find("{*}instanceState/{*}name")
                if self.made.get(name, 0) > then:
                    instances.remove(item)
                elif self.gone.get(name, 0) > then and state is not None:
                    state.text = "running"
        return ElementTree.tostring(root)


def left(ec2: Any, iam: Any) -> dict[str, list[str]]:
    """Of everything that rt may make: what is there, by name, and the ports open to everybody."""
    groups = [one for one in ec2.describe_security_groups()["SecurityGroups"]
              if one["GroupName"] != "default"]
    return {
        "instances": [one["InstanceId"] for group in ec2.describe_instances()["Reservations"]
                      for one in group["Instances"] if one["State"]["Name"] != "terminated"],
        "keys": [one["KeyName"] for one in ec2.describe_key_pairs()["KeyPairs"]],
        "groups": [one["GroupName"] for one in groups],
        "ports": [rule["FromPort"] for one in groups for rule in one["IpPermissions"]
                  if rule["IpRanges"]],
        "ssh_from": [at["CidrIp"] for one in groups for rule in one["IpPermissions"]
                     if rule.get("FromPort") == 22 for at in rule["IpRanges"]],
        "roles": [one["RoleName"] for one in iam.list_roles()["Roles"]],
        "profiles": [one["InstanceProfileName"]
                     for one in iam.list_instance_profiles()["InstanceProfiles"]]}


def tag_of(form: dict[str, str], key: str) -> str:
    for name, value in form.items():
        if name.startswith("TagSpecification.1.Tag.") and name.endswith(".Key") and value == key:
            return form[name[:-3] + "Value"]
    return ""


def start_service(layer: Ec2Layer, address: str) -> str:
    """Its endpoint."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server(address, 0, layer, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://{address}:{server.server_port}"


def main() -> int:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    seed = random.randrange(1 << 30)
    layer = Ec2Layer(seed)
    is_service = sys.argv[1] == "--serve"
    endpoint = start_service(layer, sys.argv[2] if is_service and sys.argv[2:] else "127.0.0.1")
    os.environ.update({"AWS_ACCESS_KEY_ID": "AKIDTEST", "AWS_SECRET_ACCESS_KEY": "secret"})
    ec2 = boto3.client("ec2", endpoint_url=endpoint, region_name=REGION)
    iam = boto3.client("iam", endpoint_url=endpoint, region_name=REGION) if is_service else None
    layer.clients = {"ec2": ec2, "iam": iam}
    subnets = ec2.describe_subnets()["Subnets"]
    layer.zones = {one["SubnetId"]: one["AvailabilityZone"] for one in subnets}
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    gc.freeze()  # What there is now, all images and types, is there to the end.
    if is_service:
        key = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
        print(json.dumps({"endpoint": endpoint, "image": image,
                          "environment": {**key, "AWS_ENDPOINT_URL": endpoint}}), flush=True)
        sys.stdin.read()
        return 0
    print(f"seed {seed}")
    binaries = pathlib.Path(sys.argv[1])
    foreign = ec2.run_instances(ImageId=image, MinCount=1, MaxCount=1)["Instances"][0]["InstanceId"]
    environment = {**os.environ, "HOME": "/nonexistent", "AWS_ENDPOINT_URL": endpoint,
                   "RT_TEST_EC2": endpoint, "RT_TEST_IMAGE": image, "RT_TEST_FOREIGN": foreign}
    code = subprocess.run([binaries / "contract_ec2", *sys.argv[2:]], env=environment,
                          check=False).returncode
    print(f"faults: {dict(sorted(layer.done.items()))}")
    if code == 0 and not sys.argv[2:]:
        layer.faults = Faults()
        read_back(ec2, image)
        missing = [fault for fault in NOISE if layer.done.get(fault, 0) == 0]
        assert not missing, f"no call met {missing}"
    return code


def read_back(ec2, image: str) -> None:
    """What the test "what is asked for" left there."""
    filters = [{"Name": "tag:rt-cluster-id", "Values": ["read-back"]}]
    found = [one for reservation in ec2.describe_instances(Filters=filters)["Reservations"]
             for one in reservation["Instances"]]
    assert len(found) == 1, found
    instance = found[0]
    tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
    assert tags == {"Name": "ray-demo-worker", "ray-cluster-name": "demo", "team": "a=b&c",
                    "ray-node-name": "ray-demo-worker", "ray-node-type": "worker",
                    "ray-user-node-type": "cpu", "rt-cluster-id": "read-back",
                    "rt-machine": "7"}, tags
    assert instance["InstanceLifecycle"] == "spot", instance
    assert instance["InstanceType"] == "c5.large"
    assert instance["ImageId"] == image
    assert instance["Placement"]["AvailabilityZone"] == f"{REGION}b"
    behaviour = ec2.describe_instance_attribute(InstanceId=instance["InstanceId"],
                                                Attribute="instanceInitiatedShutdownBehavior")
    assert behaviour["InstanceInitiatedShutdownBehavior"]["Value"] == "terminate"
    data = ec2.describe_instance_attribute(InstanceId=instance["InstanceId"], Attribute="userData")
    script = base64.b64decode(data["UserData"]["Value"]).decode()
    values = dict(line.split(" ", 1) for line in
                  script.split("<<'RT_BOOT'\n")[1].split("RT_BOOT\n")[0].splitlines())
    decoded = {name: base64.b64decode(value).decode() for name, value in values.items()}
    assert decoded == {"head": "10.0.0.1:6379", "token": "token-of-7", "name": "worker-7",
                       "resources": "cpu=2", "user": "ubuntu", "dead_man": "1800s"}, decoded
    groups = ec2.describe_security_groups(
        GroupIds=[group["GroupId"] for group in instance["SecurityGroups"]])["SecurityGroups"]
    assert [group["GroupName"] for group in groups] == ["ray-autoscaler-demo"]
    rules = [(rule["IpProtocol"], rule.get("FromPort"), [r["CidrIp"] for r in rule["IpRanges"]],
              [pair["GroupId"] for pair in rule["UserIdGroupPairs"]])
             for rule in groups[0]["IpPermissions"]]
    assert sorted(rules, key=str) == sorted([("-1", None, [], [groups[0]["GroupId"]]),
                                             ("tcp", 6379, ["0.0.0.0/0"], [])], key=str), rules
    left = {one["State"]["Name"] for reservation in ec2.describe_instances()["Reservations"]
            for one in reservation["Instances"]
            if any(tag["Key"] == "rt-cluster-id" and tag["Value"] != "read-back"
                   for tag in one.get("Tags", []))}
    assert left <= {"terminated"}, left
    print("boto3 reads what was asked for, and nothing is left")


if __name__ == "__main__":
    sys.exit(main())
