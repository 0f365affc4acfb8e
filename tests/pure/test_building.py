"""What one build shares with another, so that a fresh clone compiles it once."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def crates(*which: str) -> set[str]:
    """Each crate that is built, with its features."""
    command = ["cargo", "tree", "--locked", "--offline", "--prefix", "none", "--no-dedupe", *which]
    done = subprocess.run(
        [*command, "--format", "{p} [{f}]"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines())


def test_the_tests_build_no_crate_of_the_module_with_other_features() -> None:
    """One that differs has what stands on it compiled again; crates/native/Cargo.toml says what to do."""
    module = crates("--package", "howdah-native", "--edges", "normal,build")
    assert module - crates("--workspace", "--edges", "normal,build,dev") == set()
