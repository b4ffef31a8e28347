"""How long tests wait for what should happen, and how long they give the product."""

from collections.abc import Callable
from typing import Final

#: seconds. Only a test that fails takes so long, so that there is time on machines whose cores others want as well.
LIMIT: Final = 120.0


def expires(test: Callable[[float], bool]) -> bool:
    """Return True if a test holds with one of several limits of the product, in seconds, that expire in it.

    For tests in which something has to happen before. Only a slow machine needs more than the first one.
    """
    return any(test(seconds) for seconds in (2.0, 8.0, 32.0, 96.0))
