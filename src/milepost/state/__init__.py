"""State: from a schema to channels, and from values back to the schema's own type."""

from milepost.state.schema import Schema, schema_of

__all__ = ["Schema", "schema_of"]
