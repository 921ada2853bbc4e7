"""The errors of Connect. Connectors raise `RetriableError` and `ConnectError`."""

from __future__ import annotations


class ConnectError(Exception):
    """Something failed (`ConnectException`)."""


class DataError(ConnectError):
    """Data does not match its schema, or cannot be converted (`DataException`)."""


class SchemaBuilderError(DataError):
    """A schema cannot be built (`SchemaBuilderException`)."""


class RetriableError(ConnectError):
    """The operation can be repeated (`RetriableException`)."""


class ConfigError(ConnectError):
    """A configuration is invalid (`ConfigException`)."""

    @classmethod
    def of(cls, name: str, value: object, message: str) -> ConfigError:
        """Make the error about one value, with Kafka's text."""
        return cls(f"Invalid value {java_object(value)} for configuration {name}: {message}")

    @classmethod
    def of_value(cls, name: str, value: object) -> ConfigError:
        """Make the error about one value, without a reason."""
        return cls(f"Invalid value {java_object(value)} for configuration {name}")


def java_object(value: object) -> str:
    """Return a value of a configuration as Java shows it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(java_object(each) for each in value) + "]"
    return str(value)


class RestError(ConnectError):
    """A request is answered with an error. `status` is its HTTP status."""

    def __init__(self, status: int, message: str | None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def bad_request(message: str) -> RestError:
    """Return the error 400."""
    return RestError(400, message)


def not_found(message: str) -> RestError:
    """Return the error 404."""
    return RestError(404, message)


def conflict(message: str) -> RestError:
    """Return the error 409."""
    return RestError(409, message)
