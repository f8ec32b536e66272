"""The transaction coordinator: who may write in whose name, and how each transaction ends, on a partition of
`__transaction_state`."""
