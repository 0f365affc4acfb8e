"""What one build shares with another, so that a fresh clone compiles it once."""

import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def crates(*which: str) -> set[str]:
    """Each crate that is built, with its features."""
    command = ["cargo", "tree", "--locked", "--prefix", "none", "--no-dedupe", *which]
    done = subprocess.run(
        [*command, "--format", "{p} [{f}]"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines())


def test_the_tests_build_no_crate_of_the_module_with_other_features() -> None:
    """One that differs has what stands on it compiled again; crates/native/Cargo.toml says what to do."""
    module = crates("--package", "howdah-native", "--edges", "normal,build")
    assert module - crates("--workspace", "--edges", "normal,build,dev") == set()


def test_what_is_not_built_as_tests_has_none() -> None:
    """A library without tests is not compiled once more, and nobody looks for tests in documentation."""
    for manifest in sorted((ROOT / "crates").rglob("Cargo.toml")):
        sources = [file.read_text() for file in sorted((manifest.parent / "src").rglob("*.rs"))]
        assert not any(re.search(r"^\s*//[/!]\s*```", text, re.MULTILINE) for text in sources), manifest
        if not tomllib.loads(manifest.read_text()).get("lib", {}).get("test", True):
            assert not any("#[test]" in text for text in sources), manifest
