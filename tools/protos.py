"""Generates `cluster_api/` from `protos/`; `--check` only compares (exit 1 when they differ)."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"
PACKAGE = Path("cluster_api") / "v1"
GENERATED_SUFFIXES = (".py", ".pyi")


def generate(into: Path) -> None:
    """Runs protoc for every contract; the path of a proto is the path of its Python module."""
    plugins = Path(sys.executable).parent
    sources = sorted((PROTOS / PACKAGE).glob("*.proto"))
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"-I{PROTOS}",
        f"--python_out={into}",
        f"--grpc_python_out={into}",
        f"--plugin=protoc-gen-mypy={plugins / 'protoc-gen-mypy'}",
        f"--plugin=protoc-gen-mypy_grpc={plugins / 'protoc-gen-mypy_grpc'}",
        f"--mypy_out={into}",
        f"--mypy_grpc_out={into}",
        *map(str, sources),
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        sys.exit(done.returncode)


def generated(root: Path) -> dict[str, bytes]:
    """File name -> content of everything protoc made below `root`."""
    return {
        path.name: path.read_bytes()
        for path in sorted((root / PACKAGE).iterdir())
        if "_pb2" in path.name and path.suffix in GENERATED_SUFFIXES
    }


def differences() -> list[str]:
    """Names of committed files that differ from what protoc makes now."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        fresh = generated(Path(folder))
    committed = generated(ROOT)
    names = sorted({*fresh, *committed})
    return [name for name in names if fresh.get(name) != committed.get(name)]


def replace() -> None:
    """Writes the fresh files and removes those whose proto is gone."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        fresh = generated(Path(folder))
        for name in generated(ROOT).keys() - fresh.keys():
            (ROOT / PACKAGE / name).unlink()
        for name in fresh:
            shutil.copyfile(Path(folder) / PACKAGE / name, ROOT / PACKAGE / name)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only")
    if not parser.parse_args().check:
        replace()
        return 0
    changed = differences()
    for name in changed:
        print(f"{PACKAGE / name} differs from protos/: run ./run protos", file=sys.stderr)
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
