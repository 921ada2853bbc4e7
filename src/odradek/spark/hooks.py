"""Changes two things of PySpark, once in a process, for people who use `format("odradek")`.

The text of an exception begins with the sentence of this package, if it raised the error. PySpark
begins it with the traceback of a process that its user does not know.

Writers of a data frame work in each thread. Spark looks up the formats of Python in the active
session, and a new thread has none. So the session of the frame becomes the active session.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from pyspark.errors.exceptions.captured import CapturedException, PythonException
from pyspark.sql import DataFrameWriter, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from odradek.spark.sentences import own_sentence

_MARK = "_of_odradek"
"""An attribute of the functions that were put in the place of others."""


def install() -> None:
    """Change PySpark. The second call has no effect."""
    for kind in (CapturedException, PythonException):
        _replace(kind, "__str__", _with_sentence)
    _replace(DataFrameWriter, "save", _in_active_session)
    _replace(DataFrameWriter, "saveAsTable", _in_active_session)
    _replace(DataStreamWriter, "start", _in_active_session)


def activate(spark: SparkSession) -> None:
    """Make a session the active session of this thread."""
    java_class = SparkSession._get_j_spark_session_class(spark._jvm)
    java_class.setActiveSession(spark._jsparkSession)


def _replace(kind: type, name: str, around: Callable[[Callable[..., Any]], Any]) -> None:
    original = getattr(kind, name)
    if not hasattr(original, _MARK):
        changed = wraps(original)(around(original))
        setattr(changed, _MARK, True)
        setattr(kind, name, changed)


def _with_sentence(text_of: Callable[[Any], str]) -> Callable[[Any], str]:
    def text(error: Any) -> str:
        whole = text_of(error)
        first = own_sentence(whole)
        if first is None or whole.startswith(first):
            return whole
        return f"{first}\n\n{whole}"

    return text


def _in_active_session(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(writer: Any, *arguments: Any, **named: Any) -> Any:
        activate(writer._spark)
        return method(writer, *arguments, **named)

    return call
