"""The values that everything meets in: what was measured, what to do, and the links of a lab.

Plain structs, their checks and their JSON. Nothing here reads the network, starts a process or imports
another package of howdah, so that every other one may import these (``[tool.importlinter]`` in
pyproject.toml).
"""

from typing import Annotated

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0)]
"""A number of things, or of bytes."""
Seconds = Annotated[float, msgspec.Meta(ge=0.0)]
