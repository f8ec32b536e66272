"""Errors that stop a query. The message says what happened and what to do."""


class OptionError(ValueError):
    """An option is missing, malformed, or in conflict with another."""


class DataLoss(Exception):
    """Records were deleted before the query read them, or a topic was recreated.

    With `failOnDataLoss` set to false the query continues with the remaining data instead.
    """

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. Some data may have been lost: retention deleted it before the query read it, or a topic was "
            "deleted. "
            "Set failOnDataLoss to false to continue with the remaining data."
        )
