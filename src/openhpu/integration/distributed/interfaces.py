"""By which network interface the ranks of hccl reach each other."""

import contextlib
import os
import socket
from typing import Any

import torch.distributed as dist

from openhpu import settings

_NAME = "HCCL_SOCKET_IFNAME"
_GLOO_NAME = "GLOO_SOCKET_IFNAME"  # of PyTorch


def device(store: Any) -> Any:
    """Gloo's device for a group, or None for Gloo's own choice.

    HCCL_SOCKET_IFNAME chooses the first interface whose name begins so; else GLOO_SOCKET_IFNAME leaves the choice to
    Gloo. Without both it is the address by which this machine reaches the store of the group: Gloo would take the
    address of the host's name, which often is one that no other machine can reach. `store`: the group's store.

    Raises SettingError where no interface has the name.
    """
    prefix = settings.get(_NAME)
    if prefix:
        return dist.ProcessGroupGloo.create_device(interface=_interface(prefix))
    if os.environ.get(_GLOO_NAME):
        return None
    address = _address_towards(_host(store))
    return dist.ProcessGroupGloo.create_device(hostname=address) if address else None


def _interface(prefix: str) -> str:
    names = [name for _, name in socket.if_nameindex()]
    for name in names:
        if name.startswith(prefix):
            return name
    raise settings.SettingError(
        f"environment variable {_NAME}={prefix!r} is not valid; allowed: the beginning of the name of an interface of "
        f"this machine: {', '.join(names)}. Change it, or unset it."
    )


def _host(store: Any) -> str:
    """The host of the store; empty where it is none of a network."""
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    return store.host if isinstance(store, dist.TCPStore) else ""


def _address_towards(host: str) -> str:
    """This machine's address on the way to `host`; empty where that is this machine alone, or not known."""
    if not host:
        return ""
    with contextlib.suppress(OSError):
        family, kind, protocol, _, there = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as one:
            one.connect(there)  # of datagrams: sends nothing
            address: str = one.getsockname()[0]
        return "" if address == "::1" or address.startswith("127.") else address
    return ""
