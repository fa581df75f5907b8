"""Log files of workers that ended are kept up to a number and up to a size."""

from __future__ import annotations

from pathlib import Path

from raylet_agent.shell.ended_logs import EndedLogs


def written(folder: Path, number: int, size: int = 1) -> tuple[Path, int]:
    path = folder / f"worker-{number}.out"
    path.write_bytes(b"x" * size)
    return path, size


def test_the_newest_files_stay(tmp_path: Path) -> None:
    logs = EndedLogs(files_max=2, bytes_max=1_000)
    for number in range(5):
        logs.add([written(tmp_path, number)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["worker-3.out", "worker-4.out"]
    assert len(logs) == 2


def test_large_files_go_earlier(tmp_path: Path) -> None:
    logs = EndedLogs(files_max=100, bytes_max=10)
    logs.add([written(tmp_path, 0, 6), written(tmp_path, 1, 6)])
    assert [path.name for path in tmp_path.iterdir()] == ["worker-1.out"]


def test_a_file_that_somebody_removed_is_no_error(tmp_path: Path) -> None:
    logs = EndedLogs(files_max=1, bytes_max=10)
    gone = written(tmp_path, 0)
    logs.add([gone])
    gone[0].unlink()
    logs.add([written(tmp_path, 1)])
    assert len(logs) == 1
