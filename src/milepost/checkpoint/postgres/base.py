"""What the savers in PostgreSQL have in common."""

from typing import ClassVar

from milepost._db.dialect import POSTGRES, Traits
from milepost.checkpoint._sql.postgres_statements import STATEMENTS
from milepost.checkpoint._sql.statements import Statements
from milepost.checkpoint.base import BaseCheckpointSaver

__all__ = ["BasePostgresSaver"]


class BasePostgresSaver(BaseCheckpointSaver[str]):
    """A saver in PostgreSQL: `isinstance` tells it from others.

    Examples:
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.checkpoint.postgres.base import BasePostgresSaver
        >>> isinstance(InMemorySaver(), BasePostgresSaver)
        False
    """

    dialect: ClassVar[Traits] = POSTGRES
    statements: ClassVar[Statements] = STATEMENTS
    supports_pipeline = True
    """Statements that belong together are sent together, by every libpq that psycopg 3 needs."""
