"""Topics as tables: Arrow columns, schemas, the Spark data source and jobs."""
