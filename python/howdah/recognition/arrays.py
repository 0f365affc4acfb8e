"""Arrays and their manifest in one ``.npz`` file, which may come from hands that are not friendly.

A zip of ``.npy`` members and ``manifest.json``, a JSON document that gives dtype, shape and SHA-256 of each.
No member is compressed and none may be longer than the file, so a file cannot ask for more memory than it has
itself; no array may hold objects, so nothing is unpickled; shapes are believed when the bytes are there.
``numpy.load`` reads such files too.
"""

import hashlib
import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from howdah import HowdahError, document

Arrays = dict[str, NDArray[Any]]

MOST_BYTES = 256 << 20
"""Of a file; a longer one is refused unread."""
_MOST_MANIFEST_BYTES = 4 << 20
_MOST_MEMBERS = 4096
_LONGEST_SAID = 400
_DTYPES = ("<f8", "<f4", "<i4", "|i1")
_MANIFEST = "manifest.json"
_BROKEN = (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, RuntimeError)


class Note(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the manifest says of one array."""

    dtype: str
    shape: list[int]
    sha256: str
    """Of its bytes, in C order."""


class Manifest(msgspec.Struct, kw_only=True):
    """The head of every manifest; kinds of file add what they need."""

    schema: int
    howdah: str
    """Version that wrote it."""
    arrays: dict[str, Note] = {}
    """Filled in by ``write``."""


M = TypeVar("M", bound=Manifest)


def write(file: Path, manifest: Manifest, arrays: Mapping[str, NDArray[Any]]) -> str:
    """Writes both; the file appears whole. The digest of the manifest, and so of all: SHA-256 in hex.

    The same content gives the same bytes. Raises HowdahError when it cannot be written.
    """
    plain = {name: _plain(values) for name, values in arrays.items()}
    noted = msgspec.structs.replace(
        manifest,
        arrays={
            name: Note(dtype=values.dtype.str, shape=list(values.shape), sha256=_digest(values.tobytes()))
            for name, values in plain.items()
        },
    )
    text = document.encode(noted)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(temporary, "w") as zipped:
            zipped.writestr(zipfile.ZipInfo(_MANIFEST), text)
            for name, values in plain.items():
                member = io.BytesIO()
                np.lib.format.write_array(member, values, version=(1, 0), allow_pickle=False)
                zipped.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue())
        temporary.rename(file)
    except OSError as error:
        raise HowdahError(
            f"cannot write {file}: {error.strerror}; choose a file in a folder you may write to"
        ) from None
    finally:
        temporary.unlink(missing_ok=True)
    return _digest(text)


def read(file: Path, kind: type[M], *, schema: int, name: str, mend: str) -> tuple[M, Arrays, str]:
    """The manifest, the arrays and the digest that ``write`` returned.

    ``name`` is what a person calls the file ("model"), ``mend`` how to get a good one. Raises HowdahError,
    one line, whatever is wrong with the file.
    """
    try:
        if not file.is_file():
            raise HowdahError(f"there is no {name} {file}; {mend}")
        size = file.stat().st_size
        if size > MOST_BYTES:
            raise HowdahError(f"{file} is longer than any {name} ({MOST_BYTES >> 20} MiB); {mend}")
        with zipfile.ZipFile(file) as zipped:
            members = _members(zipped, size)
            text = members.pop(_MANIFEST, None)
            if text is None:
                raise ValueError("it has no manifest.json")
            if len(text) > _MOST_MANIFEST_BYTES:
                raise ValueError("its manifest is too long")
            manifest = document.decode(text, kind, schema=schema, name=name, where=str(file), mend=mend)
            if wrong := set(members) ^ {f"{each}.npy" for each in manifest.arrays}:
                raise ValueError(f"{sorted(wrong)[0]!r} is in its manifest or among its members, not in both")
            arrays = {
                each: _array(members[f"{each}.npy"], each, note) for each, note in manifest.arrays.items()
            }
    except OSError as error:
        raise HowdahError(f"cannot read {file}: {error.strerror or error}; {mend}") from None
    except HowdahError as error:
        raise HowdahError(_shown(str(error))) from None
    except _BROKEN as error:
        raise HowdahError(f"{file} is not a {name}: {_shown(str(error))}; {mend}") from None
    return manifest, arrays, _digest(text)


def finite(arrays: Arrays, where: str, mend: str) -> None:
    """Raises HowdahError when an array holds NaN or infinity."""
    for name, values in arrays.items():
        if not np.isfinite(values).all():
            raise HowdahError(f"{where}: {name} holds numbers that are not finite; {mend}")


def _shown(text: str) -> str:
    """What a stranger's file made us say, fit for a terminal."""
    plain = "".join(each if each.isprintable() else "?" for each in " ".join(text.split()))
    return plain if len(plain) <= _LONGEST_SAID else f"{plain[:_LONGEST_SAID]}…"


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    plain = np.ascontiguousarray(values)
    plain = plain.astype(plain.dtype.newbyteorder("<"), copy=False)
    if plain.dtype.str not in _DTYPES:
        raise TypeError(f"arrays of {plain.dtype.str} are not kept; only {', '.join(_DTYPES)}")
    return plain


def _members(zipped: zipfile.ZipFile, size: int) -> dict[str, bytes]:
    listed = zipped.infolist()
    if len(listed) > _MOST_MEMBERS:
        raise ValueError("it has too many members")
    if len({each.filename for each in listed}) < len(listed):
        raise ValueError("two of its members have one name")
    if any(each.compress_type != zipfile.ZIP_STORED for each in listed):
        raise ValueError("it is compressed, and howdah compresses none")
    if sum(each.file_size for each in listed) > size:
        raise ValueError("its members claim to be longer than the file")
    return {each.filename: zipped.read(each) for each in listed}


def _array(member: bytes, name: str, note: Note) -> NDArray[Any]:
    if note.dtype not in _DTYPES:
        raise ValueError(f"array {name} is of dtype {note.dtype!r}")
    content = io.BytesIO(member)
    if np.lib.format.read_magic(content) != (1, 0):
        raise ValueError(f"array {name} is of another version of npy")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(content)
    if (dtype.str, list(shape), fortran and len(shape) > 1) != (note.dtype, note.shape, False):
        raise ValueError(f"array {name} is {dtype.str} {shape}, its manifest says {note.dtype} {note.shape}")
    held = member[content.tell() :]
    expected = dtype.itemsize
    for length in shape:
        expected *= length
    if len(held) != expected:
        raise ValueError(f"array {name} has {len(held)} bytes where its shape needs {expected}")
    if _digest(held) != note.sha256:
        raise ValueError(f"array {name} is damaged: its SHA-256 is another")
    return np.frombuffer(held, dtype).reshape(shape)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
