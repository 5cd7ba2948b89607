"""A cloud in a box: moto behind tests/contract/ec2.py is the API, and what follows it boots each
instance as a mount, process and network namespace with its own home, users, addresses and metadata
service, which runs its user data and, where it was given a key, sshd. The test itself is in a
network namespace of its own between them, so ports and addresses are those of the cloud. Needs
root."""

from __future__ import annotations

import base64
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from typing import Any

from harness import BIN, ROOT, driver_python, wait_until
from ssh_hosts import SSHD, make_key

VENV = ROOT / "build/venv/bin/python"
CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
SCOPE = "Credential=AKIDTEST/20260101/us-west-2/ec2/aws4_request"
# Each over the same place of this machine, for the processes of the instance alone.
PLACES = ["home", "opt", "run", "var/lib", "var/log"]
GATEWAY = "10.99.0.1"  # The test, as the instances see it.
BOOT = """set -e
: >"$1/has-begun"
until [ -e "$1/is-wired" ]; do sleep 0.02; done
ip link set lo up
ip link set eth0 up
ip address add 169.254.169.254/32 dev lo
ip address add "$3/32" dev eth0
ip address add "$2/32" dev eth0
ip route add {gateway} dev eth0 src "$3"
ip route add default via {gateway} dev eth0 src "$3"
python3 {metadata} "$1" $4 2>"$1/metadata.log" &
mount --bind "$1/passwd" /etc/passwd
for place in home opt run var/lib var/log; do mount --bind "$1/$place" "/$place"; done
if [ -s "$1/authorized_keys" ]; then {sshd} -e -f "$1/sshd_config" 2>"$1/sshd.log"; fi
sh "$1/user-data" >"$1/user-data.log" 2>&1 &
exec sleep 100000
"""


def enter_network_of_its_own() -> bool:
    """This process and what it starts from now on; False where that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0 or libc.unshare(CLONE_NEWNET | CLONE_NEWNS) != 0:
        return False
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "address", "add", GATEWAY, "dev", "lo"], check=True)
    pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    return True


class Instance:
    """What EC2 would have booted for one RunInstances."""

    def __init__(self, root: pathlib.Path, facts: dict[str, str], env: dict[str, str]) -> None:
        self.root, self.facts = root, facts
        for place in [*PLACES, "home/ubuntu", "run/sshd", "tools"]:
            (root / place).mkdir(parents=True, exist_ok=True)
        self.home = root / "home/ubuntu"
        users = pathlib.Path("/etc/passwd").read_text()
        # The account of the image; it has the rights of the test, which is root.
        (root / "passwd").write_text(users + "ubuntu:*:0:0::/home/ubuntu:/bin/bash\n")
        self.tool("shutdown", f"touch {root}/ended")
        self.tool("pip", 'echo "pip $*" >>/home/ubuntu/pip-ran\n'
                         "cp /home/ubuntu/files/note /home/ubuntu/note-at-setup")
        (root / "tools/rt-worker").symlink_to(BIN / "rt-worker")
        path = f"{root}/tools:{pathlib.Path(driver_python()).parent}:{os.environ['PATH']}"
        (self.home / ".profile").write_text(
            f'export PATH="{path}"\nexport AWS_ENDPOINT_URL="{env["AWS_ENDPOINT_URL"]}"\n')
        (root / "authorized_keys").write_text(facts["public_key"])
        make_key(root / "host_key")
        (root / "sshd_config").write_text(
            f"Port 22\nListenAddress {facts['address']}\nHostKey {root}/host_key\n"
            f"AuthorizedKeysFile {root}/authorized_keys\nPidFile none\nUsePAM no\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n"
            "StrictModes no\nMaxStartups 100\n")
        script = base64.b64decode(facts["user_data"]).decode()
        (root / "user-data").write_text(script)
        boot = BOOT.format(sshd=SSHD, gateway=GATEWAY,
                           metadata=pathlib.Path(__file__).with_name("metadata.py"))
        role = " ".join(f"{name}={env[name]}" for name in env if name != "AWS_ENDPOINT_URL")
        argv = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                "--", "sh", "-c", boot, "sh", str(root), facts["address"],
                facts["private_address"], role if facts["profile"] else ""]
        with open(root / "console", "wb") as console:
            self.process = subprocess.Popen(argv, env={"PATH": path, "HOME": "/root"},
                                            stdin=subprocess.DEVNULL, stdout=console,
                                            stderr=console, start_new_session=True)
        self.wire()

    def wire(self) -> None:
        """A cable from the test to the instance."""
        wait_until("the instance has a network", (self.root / "has-begun").exists)
        cable = "rt" + self.root.name[-8:]
        for line in (f"link add {cable} type veth peer name eth0 netns {self.process.pid}",
                     f"link set {cable} up", f"address add {GATEWAY}/32 dev {cable}",
                     f"route add {self.facts['address']} dev {cable}",
                     f"route add {self.facts['private_address']} dev {cable}"):
            subprocess.run(["ip", *line.split()], check=True)
        (self.root / "is-wired").touch()

    def give_notice(self, seconds: float) -> None:
        """Of a spot interruption, as the metadata service does."""
        then = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
        (self.root / "part").write_text(json.dumps({"action": "terminate", "time": then}))
        (self.root / "part").rename(self.root / "notice")

    def tool(self, name: str, line: str) -> None:
        path = self.root / "tools" / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    @property
    def has_ended_itself(self) -> bool:
        return (self.root / "ended").exists()

    def end(self) -> None:
        """As a cloud does: everything at once."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()  # Its cable goes with it.


def left(environment: dict[str, str]) -> dict[str, list[str]]:
    """Of everything that rt may make: what is there, by name, and the ports open to everybody."""
    with urllib.request.urlopen(environment["AWS_ENDPOINT_URL"] + "/left") as answer:
        return dict(json.load(answer))


class Cloud:
    """The API, and the instances that follow it until close()."""

    def __init__(self) -> None:
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="rt-cloud-"))
        self.api = subprocess.Popen([VENV, ROOT / "tests/contract/ec2.py", "--serve", GATEWAY],
                                    text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.api.stdout is not None
        told = json.loads(self.api.stdout.readline())
        self.endpoint, self.image = told["endpoint"], told["image"]
        self.environment: dict[str, str] = told["environment"]
        self.booted: dict[str, Instance] = {}
        self.over = threading.Event()
        self.fault: BaseException | None = None
        self.follower = threading.Thread(target=self.follow)
        self.follower.start()

    def instances(self) -> list[Any]:
        with urllib.request.urlopen(self.endpoint + "/instances") as answer:
            return list(json.load(answer))

    def call(self, action: str, **parameters: str) -> str:
        """One of the Query API, as the account."""
        form = urllib.parse.urlencode({"Action": action, "Version": "2016-11-15", **parameters})
        request = urllib.request.Request(self.endpoint + "/", form.encode(), headers={
            "Authorization": f"AWS4-HMAC-SHA256 {SCOPE}, SignedHeaders=host, Signature=x"})
        with urllib.request.urlopen(request) as answer:
            return str(answer.read().decode())

    def follow(self) -> None:
        try:
            while not self.over.wait(0.15):
                self.step()
        except BaseException as error:  # For the test that waits for what this would have booted.
            self.fault = error

    def step(self) -> None:
        for one in self.instances():
            known = self.booted.get(one["id"])
            if one["there"] and known is None:
                self.booted[one["id"]] = Instance(self.root / one["id"], one, self.environment)
            elif one["there"] and known is not None and known.has_ended_itself:
                self.call("TerminateInstances", **{"InstanceId.1": one["id"]})
            elif not one["there"] and known is not None:
                known.end()

    def of_role(self, role: str) -> list[Instance]:
        return [one for one in list(self.booted.values()) if one.facts["role"] == role]

    def left(self) -> dict[str, list[str]]:
        return left(self.environment)

    def end_ssh_rules(self) -> None:
        """As if the time of the clients that opened port 22 were over."""
        script = """
import boto3
ec2 = boto3.client("ec2", region_name="us-west-2")
for group in ec2.describe_security_groups()["SecurityGroups"]:
    for rule in group["IpPermissions"]:
        if rule.get("FromPort") == 22:
            assert "until 2" in rule["IpRanges"][0]["Description"], rule
            rule["IpRanges"][0]["Description"] = "ssh for a client of rt until 2020-01-01T00:00:00Z"
            ec2.update_security_group_rule_descriptions_ingress(GroupId=group["GroupId"],
                                                                IpPermissions=[rule])
"""
        subprocess.run([VENV, "-c", script], env={**os.environ, **self.environment}, check=True)

    def logs(self) -> str:
        out = [f"the follower of the API ended: {self.fault!r}"] if self.fault else []
        for pattern in ("i-*/console", "i-*/user-data.log", "i-*/sshd.log", "i-*/var/log/*.log",
                        "i-*/home/ubuntu/.rt-node/clusters/*/*/*/log"):
            for path in sorted(self.root.glob(pattern)):
                out.append(f"--- {path}\n" + path.read_text(errors="replace")[-1500:])
        return "\n".join(out)

    def close(self) -> None:
        self.over.set()
        self.follower.join()
        for instance in self.booted.values():
            instance.end()
        assert self.api.stdin is not None and self.api.stdout is not None
        self.api.stdin.close()
        self.api.wait(timeout=30)
        self.api.stdout.close()
        shutil.rmtree(self.root, ignore_errors=True)
