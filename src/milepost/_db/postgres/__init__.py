"""Operations on PostgreSQL, through psycopg."""

from milepost.errors import MissingDependencyError

try:
    import psycopg  # noqa: F401
except ImportError as error:
    raise MissingDependencyError(
        "The Postgres savers need psycopg: pip install 'milepost[postgres]'."
    ) from error
