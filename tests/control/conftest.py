from pathlib import Path

import pytest


@pytest.fixture
def kafka_fixtures():
    """Files that Apache Kafka 4.3.0 wrote."""
    return Path(__file__).parents[1] / "fixtures" / "apache-kafka-4.3.0"
