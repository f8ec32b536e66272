from odradek.client.admin import Resource, ResourceType
from odradek.client.config_description import DescribedConfig
from odradek.console.readings.configs import (
    EDIT,
    brokers_of,
    config_page,
    difference_columns,
    difference_rows,
    title_of,
)


def config(name: str, **more: object) -> DescribedConfig:
    given: dict[str, object] = {
        "name": name,
        "value": "1",
        "source": "DEFAULT_CONFIG",
        "default": "1",
        "documentation": "",
        "is_sensitive": False,
        "is_read_only": False,
        "is_own": False,
    }
    return DescribedConfig(**(given | more))  # type: ignore[arg-type]


def test_configs_are_searched_in_name_and_documentation() -> None:
    configs = [config("a.ms", documentation="How long"), config("b.bytes"), config("c", source="DYNAMIC_TOPIC_CONFIG")]
    assert [row.key for row in config_page(configs, search="LONG", only_changed=False, page=1).items] == ["a.ms"]
    (changed,) = config_page(configs, search="", only_changed=True, page=1).items
    assert (changed.key, changed.text("source")) == ("c", "this topic")


def test_sensitive_values_are_hidden_and_read_only_configs_cannot_be_edited() -> None:
    secret, fixed = config_page(
        [config("key", value=None, is_sensitive=True), config("node.id", is_read_only=True)],
        search="",
        only_changed=False,
        page=1,
    ).items
    assert (secret.text("value"), secret.text("default"), secret.actions) == ("hidden", "hidden", (EDIT,))
    assert fixed.actions == ()


def test_broker_config_differences_have_one_column_per_broker() -> None:
    found = {"port": {1: "1", 2: "2\x00"}}
    assert [column.name for column in difference_columns(brokers_of(found))] == ["name", "1", "2"]
    (row,) = difference_rows(found, [1, 2])
    assert (row.text("1"), row.text("2")) == ("1", "2\\x00")


def test_config_title_names_the_resource() -> None:
    assert title_of(Resource(ResourceType.BROKER, "")) == "all brokers"
    assert title_of(Resource(ResourceType.TOPIC, "a\x1b")) == "topic a\\x1b"
