import pytest

from odradek.core.metadata.features import (
    METADATA_VERSIONS,
    SUPPORTED_FEATURES,
    default_levels,
    find_metadata_version,
    metadata_version_of_level,
)
from odradek.core.metadata.record_versions import version_to_write
from odradek.core.metadata.records import MetadataRecord
from tests.unit.core.metadata.sample_records import SAMPLES


def test_levels_and_names_match() -> None:
    assert METADATA_VERSIONS[0] == (7, "3.3-IV3", True)
    assert METADATA_VERSIONS[-1] == (30, "4.3-IV0", True)
    for version in METADATA_VERSIONS:
        assert metadata_version_of_level(version.level) is version
        assert find_metadata_version(version.name) == version


@pytest.mark.parametrize(
    ("text", "level"),
    [("4.3", 30), ("4.3.1", 30), ("4.0", 25), ("4.0.0-IV1", 23), ("3.3", 7), ("5.0", None), ("", None)],
)
def test_releases_by_name(text: str, level: int | None) -> None:
    found = find_metadata_version(text)
    assert (None if found is None else found.level) == level


def test_no_level_outside_the_table() -> None:
    assert metadata_version_of_level(6) is None
    assert metadata_version_of_level(31) is None


def test_defaults_are_supported_at_every_release() -> None:
    for version in METADATA_VERSIONS:
        for name, level in default_levels(version.level).items():
            assert level in SUPPORTED_FEATURES[name]


@pytest.mark.parametrize("record", SAMPLES, ids=lambda record: type(record).__name__)
def test_newer_metadata_versions_never_write_older_records(record: MetadataRecord) -> None:
    versions = [version_to_write(record, version.level) for version in METADATA_VERSIONS]
    assert versions == sorted(versions)
    assert versions[-1] <= type(record).HIGHEST_VERSION
