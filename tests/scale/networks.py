"""Machines in one: a network namespace each, joined by a switch whose ports can be closed."""

import os
import shutil
import subprocess

ADDRESS = "10.93.0.{}"


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def allowed():
    """Whether this user may make network namespaces, as root of a machine may."""
    tools = all(shutil.which(tool) for tool in ("ip", "unshare", "mount", "hostname"))
    if not tools or os.geteuid() != 0:
        return False
    own = ["unshare", "--net", "--uts", "--mount", "true"]
    return subprocess.run(own, capture_output=True).returncode == 0


class Networks:
    """So many machines with an address and a name each; a context in which they exist."""

    def __init__(self, folder, count):
        self.folder, self.count = folder, count
        self.switch = f"dladmm-{os.getpid()}-switch"
        self.names = [f"dladmm-{os.getpid()}-{k}" for k in range(count)]

    def __enter__(self):
        try:
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _build(self):
        ip("netns", "add", self.switch)
        ip("-n", self.switch, "link", "add", "name", "switch", "type", "bridge")
        ip("-n", self.switch, "link", "set", "dev", "switch", "up")
        for k, name in enumerate(self.names):
            ip("netns", "add", name)
            ends = ("own", "netns", name, "type", "veth", "peer", "name", f"port{k}")
            ip("link", "add", "name", *ends, "netns", self.switch)
            ip("-n", self.switch, "link", "set", "dev", f"port{k}", "master", "switch", "up")
            ip("-n", name, "addr", "add", f"{ADDRESS.format(k + 1)}/24", "dev", "own")
            for device in ("own", "lo"):
                ip("-n", name, "link", "set", "dev", device, "up")
            hosts = f"127.0.0.1 localhost\n{ADDRESS.format(k + 1)} machine{k}\n"
            (self.folder / f"hosts-{k}").write_text(hosts)

    def __exit__(self, *_):
        for name in (*self.names, self.switch):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)

    def inside(self, k):
        """What a command is preceded by to run on machine k."""
        hosts = self.folder / f"hosts-{k}"
        named = f'mount --bind "{hosts}" /etc/hosts && hostname machine{k} && exec "$@"'
        own = ("unshare", "--uts", "--mount", "sh", "-c", named, "sh")
        return ("ip", "netns", "exec", self.names[k], *own)

    def cut(self, k):
        """Take machine k off the switch, without a word to anybody."""
        ip("-n", self.switch, "link", "set", "dev", f"port{k}", "down")

    def join(self, k):
        ip("-n", self.switch, "link", "set", "dev", f"port{k}", "up")
