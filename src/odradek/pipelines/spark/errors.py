"""What people read when a query cannot go on: one sentence with what happened and what to do."""


class OptionError(ValueError):
    """An option is missing, malformed, or in conflict with another."""


class DataLoss(Exception):
    """Records that the query would have read are gone, or offsets mean other records than they did.

    With `failOnDataLoss` set to false the query continues with the available records.
    """

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. Some data may have been lost: retention deleted it before the query read it, or a topic was "
            "deleted. "
            "Set failOnDataLoss to false to continue with the remaining data."
        )
