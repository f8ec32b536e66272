from pathlib import Path

import pytest

from odradek.config.node_config import NodeConfig
from odradek.host.disk import HostDisk
from odradek.local.node_files import (
    NodeFiles,
    escape_path,
    listener_values,
    new_properties,
    replication_values,
    with_values,
)
from odradek.text.errors import UserError

QUORUM = {"controller.quorum.bootstrap.servers": "127.0.0.1:10092"}


def properties(
    directory: Path, roles: tuple[str, ...], client_port: int | None, controller_port: int | None, brokers: int = 1
) -> str:
    listeners = listener_values(client_port, controller_port)
    text = new_properties(1, roles, listeners, QUORUM, replication_values(brokers))
    return with_values(text, {"log.dirs": escape_path(directory)})


@pytest.mark.parametrize(
    ("roles", "client_port", "controller_port"),
    [(("broker", "controller"), 9092, 10092), (("broker",), 9092, None), (("controller",), None, 10092)],
)
def test_new_properties_are_a_valid_configuration(
    tmp_path: Path, roles: tuple[str, ...], client_port: int | None, controller_port: int | None
) -> None:
    config = NodeConfig.load(properties(tmp_path, roles, client_port, controller_port), "server.properties")
    assert config.warnings == ()
    assert config.log_dirs == (str(tmp_path),)
    assert config.process_roles == set(roles)
    assert [one.port for one in config.broker_listeners] == [port for port in (client_port,) if port]
    assert [one.port for one in config.controller_listeners] == [port for port in (controller_port,) if port]
    assert config.effective("offsets.topic.replication.factor") == 1
    assert config.effective("transaction.state.log.min.isr") == 1


@pytest.mark.parametrize(("brokers", "replicas", "min_in_sync"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (7, 3, 2)])
def test_replication_factors_fit_the_number_of_brokers(brokers: int, replicas: int, min_in_sync: int) -> None:
    values = replication_values(brokers)
    assert values["offsets.topic.replication.factor"] == str(replicas)
    assert values["transaction.state.log.min.isr"] == str(min_in_sync)
    assert values["share.coordinator.state.topic.min.isr"] == str(min_in_sync)


def test_with_values_changes_keys_in_place() -> None:
    text = "# mine\nlisteners = a,\\\n  b\nlog.dirs:/old\nnum.partitions=3"
    changed = with_values(text, {"listeners": "c", "log.dirs": r"C:\\data\1", "new.key": "x"})
    assert changed == "# mine\nlisteners=c\nlog.dirs=C:\\\\data\\1\nnum.partitions=3\nnew.key=x\n"


def test_with_values_replaces_whole_keys_only() -> None:
    text = "advertised.listeners=a\n#listeners=b\n"
    assert with_values(text, {"listeners": "c"}) == text + "listeners=c\n"


def test_paths_with_a_comma_are_rejected() -> None:
    assert escape_path(Path("/with space/x")) == "/with space/x"
    with pytest.raises(UserError, match="comma"):
        escape_path(Path("/a,b"))


def test_a_foreign_directory_is_rejected(tmp_path: Path) -> None:
    files = NodeFiles(tmp_path, 1)
    files.check_is_ours()
    files.directory.mkdir()
    files.check_is_ours()
    (files.directory / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="was not created by"):
        files.check_is_ours()
    files.properties.write_text("node.id=1\n")
    files.check_is_ours()


def test_a_running_node_is_detected_by_its_lock(tmp_path: Path) -> None:
    files = NodeFiles(tmp_path, 1)
    files.check_is_free()
    files.data.mkdir(parents=True)
    lock = HostDisk().lock(str(files.data / ".lock"))
    files.pid.write_text("4711\n")
    with pytest.raises(UserError, match=r"is already running \(pid 4711\)"):
        files.check_is_free()
    lock.release()
    files.check_is_free()


def test_last_log_lines_are_from_the_current_run(tmp_path: Path) -> None:
    files = NodeFiles(tmp_path, 1)
    assert files.last_log_lines(0, 5) == []
    files.directory.mkdir()
    files.log.write_text("old\n" * 3)
    start = files.log.stat().st_size
    with files.log.open("a") as log:
        log.write("new 1\nnew 2\nnew 3\n")
    assert files.last_log_lines(start, 2) == ["new 2", "new 3"]
    assert files.last_log_lines(start, 9) == ["new 1", "new 2", "new 3"]
