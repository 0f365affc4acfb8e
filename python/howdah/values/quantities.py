"""Numbers of a record that are at least 0, so that a record with another one is refused when it is read."""

from typing import Annotated

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0)]
"""A number of things, or of bytes."""
Seconds = Annotated[float, msgspec.Meta(ge=0.0)]
