"""Validates the configs of the authorizer."""

from typing import Final

from odradek.config.given import Given

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_CLASS_NAME: Final = "authorizer.class.name"
_BUILDER: Final = "principal.builder.class"
_DEFAULT_BUILDER: Final = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"


def derive_super_users(given: Given) -> frozenset[str]:
    class_name = given.typed[_CLASS_NAME]
    if class_name not in ("", STANDARD_AUTHORIZER):
        given.problems.error(
            _CLASS_NAME, f"{_CLASS_NAME}: cannot load the Java class {class_name}; use {STANDARD_AUTHORIZER}"
        )
    if not class_name:
        for key in ("super.users", "allow.everyone.if.no.acl.found"):
            if key in given.texts:
                given.problems.warn(key, f"{key} has no effect without {_CLASS_NAME}; set it too")
    elif given.texts.get(_BUILDER, _DEFAULT_BUILDER).strip() not in ("", _DEFAULT_BUILDER):
        given.problems.error(
            _BUILDER,
            f"{_BUILDER}: cannot load this Java class, so ACLs would apply to other principals; remove the line",
        )
    users = frozenset(filter(None, (user.strip() for user in given.typed["super.users"].split(";"))))
    for user in users:
        if ":" not in user:
            given.problems.error("super.users", f"super.users: {user!r} is not of the form User:name")
    return users
