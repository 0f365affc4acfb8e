"""Recordings and models as ``.npz`` files, which may come from hands that are not friendly.

A file is a zip of ``.npy`` members and ``manifest.json``, a JSON document that gives dtype, shape and SHA-256
of each. No member is compressed and none may be longer than the file, so a file cannot ask for more memory
than it has itself; no array may have objects, so nothing is unpickled; a shape must agree with the bytes.
``numpy.load`` reads such files too. What does not fit together is refused in one line.
"""

import hashlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from howdah import HowdahError, __version__, document
from howdah.recognition.classifier import Arrays
from howdah.recognition.classifiers import CLASSIFIERS, classifier
from howdah.recognition.confidence import COOLEST, HOTTEST, ClassDistance
from howdah.recognition.model import Model, Stage
from howdah.recognition.recording import MEND, NOTHING, Burst, LabConditions, Recording, background, label
from howdah.recognition.windows import LEAST_STEPS
from howdah.replaced import replaced

SCHEMA = 1
MOST_BYTES = 256 << 20
"""A longer file is refused unread."""
_TRAIN = "train one: howdah shared train RECORDINGS -o MODEL"
_DISTANCE = "familiar_"
"""The prefix of the arrays that tell new windows from known ones."""
_LONGEST_S = 3600.0
_MOST_STAGES = 16
_MOST_CLASSES = 256
_MOST_STEPS = 100_000
_MOST_MANIFEST_BYTES = 4 << 20
_MOST_MEMBERS = 4096
_LONGEST_SHOWN = 400
_DTYPES = ("<f8", "<f4", "<i4", "|i1")
_MANIFEST = "manifest.json"
_BROKEN = (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, RuntimeError)


class ArrayInfo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The manifest's entry for one array."""

    dtype: str
    shape: list[int]
    sha256: str
    """The digest of its bytes in C order."""


class Manifest(msgspec.Struct, kw_only=True):
    """The head of every manifest; kinds of file add what they need."""

    schema: int
    howdah: str
    """The version that wrote it."""
    arrays: dict[str, ArrayInfo] = {}
    """The table of arrays, filled in when the file is written."""


M = TypeVar("M", bound=Manifest)


def _write(file: Path, manifest: Manifest, arrays: Mapping[str, NDArray[Any]]) -> str:
    """Writes both, so that the file appears whole; returns the digest of the manifest, and so of all.

    The digest is SHA-256 in hex; the same content gives the same bytes. Raises HowdahError when it cannot be
    written.
    """
    plain = {name: _plain(values) for name, values in arrays.items()}
    noted = msgspec.structs.replace(
        manifest,
        arrays={
            name: ArrayInfo(
                dtype=values.dtype.str, shape=list(values.shape), sha256=_digest(values.tobytes())
            )
            for name, values in plain.items()
        },
    )
    text = document.encode(noted)
    try:
        with replaced(file) as new, zipfile.ZipFile(new, "w") as zipped:
            zipped.writestr(zipfile.ZipInfo(_MANIFEST), text)
            for name, values in plain.items():
                member = io.BytesIO()
                np.lib.format.write_array(member, values, version=(1, 0), allow_pickle=False)
                zipped.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue())
    except OSError as error:
        raise HowdahError(
            f"cannot write {file}: {error.strerror}; choose a file in a folder you may write to"
        ) from None
    return _digest(text)


def _read(file: Path, kind: type[M], *, name: str, mend: str) -> tuple[M, Arrays, str]:
    """The manifest, the arrays and the digest that ``_write`` returned.

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
            manifest = document.decode(text, kind, schema=SCHEMA, name=name, where=str(file), mend=mend)
            if wrong := set(members) ^ {f"{each}.npy" for each in manifest.arrays}:
                raise ValueError(f"{sorted(wrong)[0]!r} is in its manifest or among its members, not in both")
            arrays = {
                each: _array(members[f"{each}.npy"], each, info) for each, info in manifest.arrays.items()
            }
    except OSError as error:
        raise HowdahError(f"cannot read {file}: {error.strerror or error}; {mend}") from None
    except HowdahError as error:
        raise HowdahError(_shown(str(error))) from None
    except _BROKEN as error:
        raise HowdahError(f"{file} is not a {name}: {_shown(str(error))}; {mend}") from None
    return manifest, arrays, _digest(text)


def _check_finite(arrays: Arrays, where: str, mend: str) -> None:
    """Raises HowdahError when an array has NaN or infinity."""
    for name, values in arrays.items():
        if not np.isfinite(values).all():
            raise HowdahError(f"{where}: {name} has numbers that are not finite; {mend}")


def _shown(text: str) -> str:
    """A message with words of the file, made fit for a terminal."""
    plain = "".join(each if each.isprintable() else "?" for each in " ".join(text.split()))
    return plain if len(plain) <= _LONGEST_SHOWN else f"{plain[:_LONGEST_SHOWN]}…"


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


def _array(member: bytes, name: str, info: ArrayInfo) -> NDArray[Any]:
    if info.dtype not in _DTYPES:
        raise ValueError(f"array {name} is of dtype {info.dtype!r}")
    content = io.BytesIO(member)
    if np.lib.format.read_magic(content) != (1, 0):
        raise ValueError(f"array {name} is of another version of npy")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(content)
    if (dtype.str, list(shape), fortran and len(shape) > 1) != (info.dtype, info.shape, False):
        raise ValueError(f"array {name} is {dtype.str} {shape}, its manifest says {info.dtype} {info.shape}")
    numbers = member[content.tell() :]
    expected = dtype.itemsize
    for length in shape:
        expected *= length
    if len(numbers) != expected:
        raise ValueError(f"array {name} has {len(numbers)} bytes where its shape needs {expected}")
    if _digest(numbers) != info.sha256:
        raise ValueError(f"array {name} is damaged: its SHA-256 is another")
    return np.frombuffer(numbers, dtype).reshape(shape)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class _RecordingManifest(Manifest, kw_only=True, forbid_unknown_fields=True):
    base_rtt_s: float
    step_s: float
    run: str
    path: str
    background: dict[str, int] | None
    bursts: tuple[Burst, ...]
    ours: dict[str, int] | None = None
    made: LabConditions | None = None


_OF_RECORDING = tuple(_RecordingManifest.__annotations__)


def write_recording(recording: Recording, file: Path) -> None:
    """Writes a recording. Raises HowdahError when it cannot be written."""
    kept = {name: getattr(recording, name) for name in _OF_RECORDING}
    manifest = _RecordingManifest(
        schema=SCHEMA, howdah=__version__, **{**kept, "ours": recording.ours or None}
    )
    _write(file, manifest, {"times_s": recording.times_s, "rtt_s": recording.rtt_s})


def read_recording(file: Path) -> tuple[Recording, str]:
    """The recording and its digest. Raises HowdahError, one line, whatever is wrong with the file."""
    manifest, arrays, digest = _read(file, _RecordingManifest, name="recording", mend=MEND)
    if set(arrays) != {"times_s", "rtt_s"} or any(each.dtype != np.float64 for each in arrays.values()):
        raise HowdahError(f"{file} is not a recording: it needs times_s and rtt_s of dtype <f8; {MEND}")
    kept = {name: getattr(manifest, name) for name in _OF_RECORDING}
    try:
        return Recording(**{**kept, **arrays, "ours": manifest.ours or None}), digest
    except HowdahError as error:
        raise HowdahError(f"{file}: {error}") from None


def recording_files(places: list[Path]) -> list[Path]:
    """The files given, and all ``*.npz`` of the folders given by name, each once.

    Raises HowdahError without any.
    """
    found = {
        file.resolve(): file
        for place in places
        for file in (sorted(place.glob("*.npz")) if place.is_dir() else [place])
    }
    if not found:
        raise HowdahError(f"no recordings (*.npz) in {', '.join(map(str, places))}; record some first")
    return list(found.values())


class _StageManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    length_s: float
    steps: int
    step_s: float
    """Steps and step are those of the classifier."""
    temperature: float
    new: float
    near: float


class _ModelManifest(Manifest, kw_only=True, forbid_unknown_fields=True):
    ours: str = NOTHING
    classifier: str
    classes: list[str]
    step_s: float
    sure: float
    stages: list[_StageManifest]


def save_model(model: Model, file: Path) -> str:
    """Writes a model and returns its digest. Raises HowdahError when it cannot be written."""
    arrays: Arrays = {}
    for number, stage in enumerate(model.stages):
        distance = {_DISTANCE + name: values for name, values in stage.distance.arrays().items()}
        for name, values in {**stage.classifier.arrays(), **distance}.items():
            arrays[f"{number}.{name}"] = values
    manifest = _ModelManifest(
        schema=SCHEMA,
        howdah=__version__,
        ours=model.ours,
        classifier=model.stages[0].classifier.name,
        classes=model.classes,
        step_s=model.step_s,
        sure=model.sure,
        stages=[
            _StageManifest(
                length_s=stage.length_s,
                steps=stage.classifier.steps,
                step_s=stage.classifier.step_s,
                temperature=stage.temperature,
                new=stage.new,
                near=stage.near,
            )
            for stage in model.stages
        ],
    )
    return _write(file, manifest, arrays)


def load_model(file: Path) -> tuple[Model, str]:
    """The model and its digest. Raises HowdahError for whatever is not a whole model of this version."""
    manifest, arrays, digest = _read(file, _ModelManifest, name="model", mend=_TRAIN)
    _check_finite(arrays, str(file), _TRAIN)
    try:
        _check_model(manifest)
        stages = [_stage(manifest, number, stage, arrays) for number, stage in enumerate(manifest.stages)]
        if arrays:
            raise ValueError(f"array {min(arrays)} belongs to no stage")
    except ValueError as error:
        raise HowdahError(f"{file} is not a model: {error}; {_TRAIN}") from None
    return Model(manifest.classes, manifest.step_s, stages, manifest.sure, manifest.ours), digest


def _check_model(manifest: _ModelManifest) -> None:
    if manifest.classifier not in CLASSIFIERS:
        raise ValueError(f"this version has no classifier {manifest.classifier[:40]!r}")
    classes, lengths = manifest.classes, [stage.length_s for stage in manifest.stages]
    if not 2 <= len(set(classes)) == len(classes) <= _MOST_CLASSES:
        raise ValueError("it needs two classes or more, each with a name of its own")
    for name in classes:
        if not _is_class(name):
            raise ValueError(f"{name[:40]!r} is no class")
    if not 1 <= len(lengths) <= _MOST_STAGES or sorted(set(lengths)) != lengths:
        raise ValueError("its stages do not ascend in length")
    if not (manifest.step_s > 0 and 0 < manifest.sure <= 1 and lengths[-1] <= _LONGEST_S):
        raise ValueError("its step, its threshold or its length is out of range")
    for stage in manifest.stages:
        if not (
            LEAST_STEPS <= stage.steps <= _MOST_STEPS
            and stage.step_s >= manifest.step_s
            and stage.steps * stage.step_s <= stage.length_s * (1 + 1e-6)
            and COOLEST <= stage.temperature <= HOTTEST
            and 0 < stage.near <= stage.new
        ):
            raise ValueError(f"its stage of {stage.length_s:g} s is out of range")


def _is_class(name: str) -> bool:
    try:
        return label(background(name)) == name
    except HowdahError:
        return False


def _stage(manifest: _ModelManifest, number: int, stage: _StageManifest, arrays: Arrays) -> Stage:
    """One stage, whose arrays are taken out of ``arrays``."""
    prefix = f"{number}."
    mine = {name.removeprefix(prefix): arrays.pop(name) for name in sorted(arrays) if name.startswith(prefix)}
    distance = {
        name.removeprefix(_DISTANCE): mine.pop(name) for name in sorted(mine) if name.startswith(_DISTANCE)
    }
    kind = classifier(manifest.classifier)
    return Stage(
        stage.length_s,
        kind.restored(mine, manifest.classes, stage.steps, stage.step_s),
        stage.temperature,
        ClassDistance.restored(distance),
        stage.new,
        stage.near,
    )
