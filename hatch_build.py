"""Build hook: makes the wire codecs, so that a wheel carries them."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CodecHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        sys.path.insert(0, str(Path(self.root) / "src"))
        from odradek.wire import build

        stamp = build.fingerprint() if version == "editable" else build.BUILT
        build.generate(build.GENERATED, stamp)
