from pathlib import Path

import pytest

from examples.runtime.errors import PipelineError
from examples.runtime.jars import CONNECTOR_JARS, Artifact, connector_jars, missing_jars

# Replaces Maven: `dependency:copy` creates a jar that contains its coordinates.
WORKING_MAVEN = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
for argument in "$@"; do
  case $argument in
    -Dartifact=*) coordinates=${argument#-Dartifact=} ;;
    -DoutputDirectory=*) output=${argument#-DoutputDirectory=} ;;
  esac
done
[ -n "$output" ] || exit 0
file_name=$(echo "$coordinates" | cut -d: -f2,3 | tr : -).jar
echo "$coordinates" > "$output/$file_name"
"""
FAILING_MAVEN = """#!/bin/sh
echo "[INFO] looking"
echo "[ERROR] Could not transfer artifact"
echo "[ERROR] more of it"
exit 1
"""


def install_maven(directory: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory.mkdir()
    (directory / "mvn").write_text(script)
    (directory / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    return directory


def test_each_missing_jar_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maven = install_maven(tmp_path / "maven", WORKING_MAVEN, monkeypatch)
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / CONNECTOR_JARS[0].file_name).touch()
    fetched: list[Artifact] = []

    paths = connector_jars(jars, fetched.append)
    calls = (maven / "calls").read_text().splitlines()
    assert connector_jars(jars, fetched.append) == paths

    assert fetched == list(CONNECTOR_JARS[1:])
    assert paths == [jars / artifact.file_name for artifact in CONNECTOR_JARS]
    assert sorted(jars.iterdir()) == sorted(paths), "nothing is left of the fetching"
    assert len(calls) == 6
    assert all("-Dtransitive=false" in call for call in calls if "dependency:get" in call)


def test_failed_fetch_reports_the_reason_and_leaves_no_partial_jar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_maven(tmp_path / "maven", FAILING_MAVEN, monkeypatch)
    with pytest.raises(PipelineError, match="Could not transfer artifact") as failed:
        connector_jars(tmp_path / "jars", lambda jar: None)
    assert "\n" not in str(failed.value)
    assert missing_jars(tmp_path / "jars") == list(CONNECTOR_JARS)
    assert not list((tmp_path / "jars").iterdir())


def test_missing_maven_is_reported_with_the_missing_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PipelineError, match="install Maven") as failed:
        connector_jars(tmp_path / "jars", lambda jar: None)
    assert all(artifact.file_name in str(failed.value) for artifact in CONNECTOR_JARS)
