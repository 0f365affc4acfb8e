"""NFS over TCP, as an application in a user's hands: nfs-ganesha serves a folder in memory, nfs-cp fills it.

Each client copies a file to the server under a new name, again and again. nfs-cp writes 1 MiB at a time and
waits for it, so that one client has no more than 1 MiB a round trip: 60 Mb/s at 128 ms. (The kernel's client
of the paper writes behind; Linux namespaces without its module cannot have it.) NFS 3, because nfs-cp of
Debian 12 does not go on after a short write, which is what NFS 4 gives it.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.ops.tool import TCP_HEADERS_BYTES, Sender, Stage, address, right
from bench.peers.tool import Command, listening

FILE_BYTES = 10**9
_PORT = 2049
_SERVER = """
mount -t tmpfs none /run && mkdir /run/rpcbind && rpcbind &&
exec ganesha.nfsd -F -f "$1" -L "$2" -p /run/ganesha.pid
"""
"""A portmapper beside the server, which NFS 3 needs; both see a /run of their own, as each host has."""
_CLIENT = """
number=0
while name=$3-$number && nfs-cp "$1" "nfs://$2/$name" >/dev/null; do
    : > "$4/$name" && rm "$4/$name"
    number=$((number + 1))
done
"""
_CONFIGURATION = """
NFS_CORE_PARAM {{
    Protocols = 3;
    NFS_Port = {port};
    Bind_addr = {address};
    Enable_NLM = false;
    Enable_RQUOTA = false;
}}
EXPORT {{
    Export_Id = 1;
    Path = {folder};
    Pseudo = /export;
    Protocols = 3;
    Transports = TCP;
    Access_Type = RW;
    Squash = No_Root_Squash;
    SecType = sys;
    FSAL {{ Name = VFS; }}
}}
LOG {{ Default_Log_Level = EVENT; }}
"""


@dataclasses.dataclass(frozen=True)
class Nfs:
    clients: int
    headers_bytes: int = TCP_HEADERS_BYTES

    @contextlib.contextmanager
    def serving(self, stage: Stage, pairs: Sequence[int]) -> Iterator[None]:
        with _source(stage).open("wb") as file:
            file.truncate(FILE_BYTES)
        with contextlib.ExitStack() as stack:
            for pair in self._used(pairs):
                own = _folder(stage, pair)
                own.mkdir()
                configuration = stage.scratch / f"ganesha-{pair}.conf"
                configuration.write_text(
                    _CONFIGURATION.format(port=_PORT, address=address(stage, pair), folder=own)
                )
                log = stage.scratch / f"ganesha-{pair}.log"
                command = Command(["unshare", "--mount", "sh", "-c", _SERVER, "sh", configuration, log])
                said = log.with_suffix(".out")
                stack.enter_context(listening(stage.lab, right(pair), command, f"tcp:{_PORT}", said))
            yield

    def senders(self, stage: Stage, pairs: Sequence[int]) -> Sequence[Sender]:
        made = []
        for number in range(self.clients):
            pair = pairs[number % len(pairs)]
            folder = _folder(stage, pair)
            words = [str(_source(stage)), f"{address(stage, pair)}{folder}", str(number), str(folder)]
            made.append(Sender(pair, Command(["sh", "-c", _CLIENT, "sh", *words])))
        return made

    def _used(self, pairs: Sequence[int]) -> Sequence[int]:
        return pairs[: self.clients]


def _source(stage: Stage) -> Path:
    return stage.scratch / "file"


def _folder(stage: Stage, pair: int) -> Path:
    return stage.scratch / f"export-{pair}"
