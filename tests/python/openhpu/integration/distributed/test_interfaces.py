"""The network interface of hccl: by its name, or by the way to the group's store."""

import socket

import pytest
import torch.distributed as dist

from openhpu import settings
from openhpu.integration.distributed import interfaces


@pytest.fixture
def chosen(monkeypatch):
    """What Gloo is asked for, without names in the environment."""
    asked = []
    monkeypatch.setattr(dist.ProcessGroupGloo, "create_device", lambda **how: asked.append(how) or "device")
    for name in ("HCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        monkeypatch.delenv(name, raising=False)
    return asked


@pytest.mark.parametrize("prefix", ["lo", "l"])
def test_a_name_or_its_beginning(chosen, monkeypatch, prefix):
    monkeypatch.setenv("HCCL_SOCKET_IFNAME", prefix)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "another")
    assert interfaces.device(dist.HashStore()) == "device"
    (how,) = chosen
    assert how["interface"].startswith(prefix)


def test_a_name_that_no_interface_has(chosen, monkeypatch):
    monkeypatch.setenv("HCCL_SOCKET_IFNAME", "nosuch")
    with pytest.raises(settings.SettingError, match=r"HCCL_SOCKET_IFNAME='nosuch' is not valid.*lo"):
        interfaces.device(dist.HashStore())
    assert chosen == []


@pytest.mark.parametrize(
    ("host", "address"),
    [("10.9.8.7", "10.9.8.1"), ("127.0.0.1", None), ("localhost", None), ("nosuch.invalid", None)],
)
def test_the_way_to_the_store(chosen, monkeypatch, host, address):
    """The route is that of a machine with a network 10.9.8."""
    resolve = socket.getaddrinfo
    known = {"nosuch.invalid": socket.gaierror("no such name")}

    def resolved(name, *rest, **more):
        if name in known:
            raise known[name]
        return resolve(name, *rest, **more)

    class Routed(socket.socket):
        def connect(self, there):
            self.own = "10.9.8.1" if there[0].startswith("10.9.8.") else "127.0.0.1"

        def getsockname(self):
            return self.own, 0

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    monkeypatch.setattr(socket, "socket", Routed)
    monkeypatch.setattr(interfaces, "_host", lambda _: host)
    assert interfaces.device(dist.HashStore()) == ("device" if address else None)
    assert chosen == ([{"hostname": address}] if address else [])


def test_the_host_of_a_store():
    store = dist.TCPStore("127.0.0.1", 0, is_master=True)
    assert interfaces._host(dist.PrefixStore("outer", dist.PrefixStore("inner", store))) == "127.0.0.1"
    assert interfaces._host(dist.PrefixStore("outer", dist.HashStore())) == ""


def test_the_choice_of_gloo(chosen, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    assert interfaces.device(dist.HashStore()) is None
    monkeypatch.delenv("GLOO_SOCKET_IFNAME")
    assert interfaces.device(dist.HashStore()) is None
    assert chosen == []
