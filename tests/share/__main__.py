"""Compares as many random histories as the argument says with Apache Kafka (see `histories`)."""

import sys

from tests.share.histories import History, compare

wanted = int(sys.argv[1])
for begin in range(0, wanted, 500):
    end = min(wanted, begin + 500)
    whole = compare([History(seed) for seed in range(begin, end)])
    print(f"{begin}-{end - 1}: equal, {whole} of them to the end")
