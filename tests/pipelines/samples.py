"""Makes files in public formats, of any size, one line in a hundred of which is bad.

They are what the shops of the "eCommerce behavior data" on Kaggle, MovieLens, Debezium, Prometheus and
OpenTelemetry's collector write. The same seed makes the same files.
"""

from __future__ import annotations

import gzip
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

BAD_SHARE = 0.01
START = datetime(2019, 10, 1, tzinfo=UTC)
SHOP = "event_time,event_type,product_id,category_id,category_code,brand,price,user_id,user_session"
CATEGORIES = (
    "electronics.smartphone",
    "appliances.kitchen",
    "",
    "computers.notebook",
    "kids, toys",
)


def shop_events(path: Path, count: int, seed: int = 1) -> int:
    """A file like 2019-Oct.csv.gz, in the order of time; returns the number of bad lines."""
    chance = random.Random(seed)
    time = START
    lines, bad = [SHOP], 0
    for number in range(count):
        time += timedelta(seconds=chance.expovariate(count / (3 * 86_400)))
        product = chance.randrange(500)
        category = CATEGORIES[product % len(CATEGORIES)]
        fields = [
            f"{time:%Y-%m-%d %H:%M:%S} UTC",
            chance.choices(("view", "cart", "purchase"), (80, 15, 5))[0],
            str(1000 + product),
            "2053013555631882655",
            f'"{category}"' if "," in category else category,
            f"brand {product % 7}",
            f"{chance.randrange(100, 100_000) / 100:.2f}",
            str(500_000 + chance.randrange(max(2, count // 20))),
            f"session-{number}",
        ]
        if chance.random() < BAD_SHARE:
            bad += 1
            damage_fields(fields, chance)
        lines.append(",".join(fields))
    content = "\n".join(lines).encode() + b"\n"
    path.write_bytes(gzip.compress(content, 1) if path.suffix == ".gz" else content)
    return bad


def damage_fields(fields: list[str], chance: random.Random) -> None:
    kind = chance.randrange(4)
    if kind == 0:
        del fields[5:]
    elif kind == 1:
        fields[0] = "2019-13-77 00:00:00 UTC"
    elif kind == 2:
        fields[1] = '"view'
    else:
        fields[7] = ""


def products(path: Path) -> None:
    """A reference table of the shop's products; one is there twice, and the last one counts."""
    rows = [f"{1000 + number},Product {number % 20}" for number in range(450)]
    path.write_text("\n".join(["product_id,name", "1000,Old name", *rows]) + "\n")


def ratings(path: Path, count: int, seed: int = 2) -> int:
    """ratings.csv of MovieLens, or ratings.dat; returns the number of bad lines."""
    chance = random.Random(seed)
    is_dat = path.suffix == ".dat"
    lines, bad = [] if is_dat else ["userId,movieId,rating,timestamp"], 0
    users, films = max(5, count // 100), max(30, count // 200)
    for number in range(count):
        fields = [
            str(1 + chance.randrange(users)),
            str(1 + int(films * chance.random() ** 2)),
            str(chance.randrange(1, 11) / 2),
            str(964_982_703 + number),
        ]
        if chance.random() < BAD_SHARE:
            bad += 1
            kind = chance.randrange(3)
            if kind == 0:
                fields = fields[:2]
            else:
                fields[kind] = ("", "five", "3,5" if is_dat else "n/a")[kind]
        lines.append(("::" if is_dat else ",").join(fields))
    path.write_text("\n".join(lines) + "\n")
    return bad


def changes(path: Path, count: int, seed: int = 3) -> int:
    """Debezium's changes of a table, as JSON Lines; returns the number of bad lines."""
    chance = random.Random(seed)
    rows: dict[int, dict[str, object]] = {}
    lines, bad = [], 0
    for number in range(count):
        key = chance.randrange(max(5, count // 10))
        before = rows.get(key)
        if before is not None and chance.random() < 0.15:
            op, after = "d", None
            del rows[key]
        else:
            op = "c" if before is None else "u"
            after = {
                "id": key,
                "name": f'näme "{chance.randrange(1000)}"',
                "price": chance.randrange(10_000) / 100,
                "exact": str(chance.randrange(10**18)),
                "big": chance.randrange(2**53, 2**63),
                "tags": [chance.randrange(9), None],
                "none": None,
            }
            rows[key] = after
        envelope = {
            "before": before,
            "after": after,
            "source": {"connector": "postgresql", "lsn": number, "table": "products"},
            "op": op,
            "ts_ms": 1_700_000_000_000 + number,
        }
        text = json.dumps({"schema": None, "payload": envelope} if number % 2 else envelope)
        if chance.random() < BAD_SHARE:  # a change that is there twice, the second one damaged
            bad += 1
            broken = (text[:-2], text.replace('"op": "', '"op": "x'), "[1]", "{}")
            lines.append(broken[chance.randrange(4)])
        lines.append(text)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return bad


def prometheus(path: Path, count: int, seed: int = 4) -> int:
    """The text of several scrapes, with times; returns the number of bad lines."""
    chance = random.Random(seed)
    lines, bad = [], 0
    at = int(START.timestamp() * 1000)
    for number in range(count):
        if number % 40 == 0:
            at += 5_000
            lines += [
                "# HELP http_requests_total Requests.",
                "# TYPE http_requests_total counter",
                "",
            ]
        series = number % 40
        line = (
            f'http_requests_total{{code="{200 + series % 5}",path="/a b/{series}"}} {number} {at}'
        )
        if series < 10:
            line = f"node_load{series} {chance.random() * 10:.3f} {at}"
        if chance.random() < BAD_SHARE:
            bad += 1
            line = (f"node_load{series} NaN", "node load 1", "1x 2")[chance.randrange(3)]
        lines.append(line)
    path.write_text("\n".join(lines) + "\n")
    return bad


def otlp(path: Path, count: int, seed: int = 5) -> int:
    """Requests of the collector's file exporter; returns the number of bad lines."""
    chance = random.Random(seed)
    lines, bad = [], 0
    for number in range(count):
        at = str(1_569_888_000_000_000_000 + number * 1_000_000_123)
        attribute = {"key": "service.name", "value": {"stringValue": f"shop-{number % 2}"}}
        label = {"key": "cpu", "value": {"intValue": str(number % 3)}}
        points = [
            {"attributes": [label], "timeUnixNano": at, "asDouble": chance.random()},
            {"timeUnixNano": at, "asInt": str(number)},
        ]
        metrics = [
            {"name": "system.cpu", "unit": "1", "gauge": {"dataPoints": points[:1]}},
            {"name": "requests", "sum": {"isMonotonic": True, "dataPoints": points[1:]}},
            {"name": "sizes", "histogram": {"dataPoints": [{"count": "3", "sum": 2.5}]}},
        ]
        resource = {"attributes": [attribute, {"key": "os", "value": {"stringValue": "linux"}}]}
        scope = {"scope": {"name": "tests"}, "metrics": metrics}
        request = {"resourceMetrics": [{"resource": resource, "scopeMetrics": [scope]}]}
        text = json.dumps(request)
        if chance.random() < BAD_SHARE:
            bad += 1
            text = (text[:-3], '{"resourceSpans": []}', "[]")[chance.randrange(3)]
        lines.append(text)
    path.write_text("\n".join(lines) + "\n")
    return bad
