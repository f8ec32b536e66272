from pathlib import Path

import pytest

from odradek.cli.main import run
from tests.unit.cli.test_main import properties

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
OTHER_CLUSTER = "p8fFEbKGQ22B6M_Da_vCBw"


def test_formatting_twice_needs_ignore_formatted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = properties(tmp_path)
    assert run(["format", "-t", CLUSTER, "-c", str(file)]) == 0
    assert "metadata.version" in capsys.readouterr().out
    meta = (tmp_path / "data" / "meta.properties").read_text()
    assert f"cluster.id={CLUSTER}" in meta
    assert (tmp_path / "data" / "bootstrap.checkpoint").exists()

    assert run(["format", "-t", CLUSTER, "-c", str(file)]) == 2
    assert "already formatted" in capsys.readouterr().err
    assert run(["format", "-t", CLUSTER, "-c", str(file), "-g"]) == 0
    assert (tmp_path / "data" / "meta.properties").read_text() == meta


def test_a_directory_of_another_cluster_is_not_reformatted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = properties(tmp_path)
    assert run(["format", "-t", CLUSTER, "-c", str(file)]) == 0
    assert run(["format", "-t", OTHER_CLUSTER, "-c", str(file), "-g"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert CLUSTER in line


def test_a_dynamic_quorum_needs_initial_voters(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = properties(tmp_path)
    text = file.read_text().replace("controller.quorum.voters=1@", "controller.quorum.bootstrap.servers=")
    file.write_text(text)
    assert run(["format", "-t", CLUSTER, "-c", str(file)]) == 2
    assert "--standalone" in capsys.readouterr().err
    for options, reason in (
        (["-s", "-N"], "mutually exclusive"),
        (["-I", "1@127.0.0.1:9093"], "--initial-controllers: No colon following port"),
    ):
        assert run(["format", "-t", CLUSTER, "-c", str(file), *options]) == 2
        assert reason in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
    assert run(["format", "-t", CLUSTER, "-c", str(file), "--standalone"]) == 0
    assert list((tmp_path / "data" / "__cluster_metadata-0").glob("*.checkpoint"))


def test_initial_controllers_set_the_directory_id(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = properties(tmp_path)
    file.write_text(file.read_text().replace("controller.quorum.voters=1@", "controller.quorum.bootstrap.servers="))
    voters = "1@127.0.0.1:9093:JEXY6aqzQY-32P5TStzaFg,2@127.0.0.1:9094:MvDxzVmcRsaTz33bUuRU6A"
    assert run(["format", "-t", CLUSTER, "-c", str(file), "-I", voters]) == 0
    assert "Formatting dynamic metadata voter directory" in capsys.readouterr().out
    assert "directory.id=JEXY6aqzQY-32P5TStzaFg" in (tmp_path / "data" / "meta.properties").read_text()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["-r", "0.8"], "Unknown metadata.version"),
        (["-f", "metadata.version=high"], "the level must be a number"),
        (["-f", "no.such.feature=1"], "no.such.feature"),
        (["-f", "metadata.version"], "KEY=VALUE"),
    ],
)
def test_invalid_features_and_releases_are_rejected(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, options: list[str], expected: str
) -> None:
    assert run(["format", "-t", CLUSTER, "-c", str(properties(tmp_path)), *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert expected in line
    assert not (tmp_path / "data").exists()
