"""What the project is made of: licences that deny.toml allows, sources that it names, digests in the bill."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    command = [sys.executable, str(ROOT / "scripts/sbom.py"), "-"]
    made: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return made


def permitted(expression: str, allowed: set[str]) -> bool:
    """Whether a licence expression (SPDX 2.3, annex D) can be kept to with licences that are allowed."""
    words = re.findall(r"[()]|[\w.+-]+(?: WITH [\w.-]+)?", expression)
    python = [
        word if word in "()" else word.lower() if word in ("AND", "OR") else str(word in allowed)
        for word in words
    ]
    return bool(eval(" ".join(python)))  # noqa: S307 - of our own words alone


def test_licence_expressions_are_read() -> None:
    allowed = {"MIT", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"}
    assert permitted("GPL-3.0-only OR MIT", allowed)
    assert permitted("(MIT OR Apache-2.0) AND Unicode-3.0", allowed)
    assert permitted("Apache-2.0 WITH LLVM-exception", allowed)
    assert not permitted("MIT AND GPL-3.0-only", allowed)
    assert not permitted("Apache-2.0", allowed)


def test_each_crate_has_a_licence_that_is_allowed(bill: dict[str, Any]) -> None:
    allowed = set(tomllib.loads((ROOT / "deny.toml").read_text())["licenses"]["allow"])
    crates = [one for one in bill["components"] if one["purl"].startswith("pkg:cargo/")]
    refused = [
        (one["name"], one["licenses"][0]["expression"])
        for one in crates
        if not permitted(one["licenses"][0]["expression"], allowed)
    ]
    assert crates
    assert refused == []


def test_the_bill_holds_all_that_is_locked_each_with_its_digests(bill: dict[str, Any]) -> None:
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    expected = {
        f"pkg:cargo/{one['name']}@{one['version']}": {one["checksum"]} for one in lock if "source" in one
    }
    text = (ROOT / "requirements/dev.txt").read_text()
    for pin in re.split(r"\n(?=\S)", text):
        if match := re.match(r"([\w.-]+)==(\S+)", pin):
            digests = set(re.findall(r"sha256:([0-9a-f]{64})", pin))
            expected[f"pkg:pypi/{match[1]}@{match[2]}"] = digests

    def digests_of(one: dict[str, Any]) -> set[str]:
        hashes = one.get("hashes") or one["externalReferences"][0]["hashes"]
        return {each["content"] for each in hashes}

    assert {one["purl"]: digests_of(one) for one in bill["components"]} == expected
    assert all(expected.values())


def test_what_users_get_is_told_from_what_tests_need(bill: dict[str, Any]) -> None:
    required = {one["name"] for one in bill["components"] if one["scope"] == "required"}
    assert {"blake3", "aws-lc-sys", "postcard", "libbpf-sys", "numpy", "pygments"} <= required
    optional = {one["name"] for one in bill["components"] if one["scope"] == "optional"}
    assert {"nats-py", "nkeys", "uvicorn", "scikit-learn"} <= optional
    assert not (required | optional) & {"proptest", "libtest-mimic", "libfuzzer-sys", "pytest", "ruff"}


def test_the_same_locks_give_the_same_bill(bill: dict[str, Any]) -> None:
    command = [sys.executable, str(ROOT / "scripts/sbom.py"), "-"]
    again = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    assert json.loads(again) == bill
