"""Jobs whose ranks are actors of Ray.

    async with ranks(4) as allocation:
        results = await allocation.run(main)  # async def main(world): ...

Each place is an actor in a bundle of a placement group. The agent of a job is on the node of rank 0. The actor of rank
0 passes the key of the job to the other actors as a Ray object.
"""

from __future__ import annotations

import asyncio
import contextlib
import platform
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any, Final

import ray
from ray.exceptions import RayActorError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from aiompi.integrations.allocation import (
    Allocation,
    Invitation,
    Main,
    T,
    be_rank,
    check_size,
    refuse_other_version,
    run_in,
    start_agent,
)
from aiompi.settings import Settings
from aiompi.settings import load as load_settings
from aiompi.wire import version

__all__ = ["ranks", "run"]

#: most concurrent jobs in the same actors
_JOBS: Final = 100
#: name of a resource -> option of actors; all other resources go into the option `resources`
_OPTIONS: Final = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}


class Place:
    """The actor for one rank of each job."""

    def node(self, protocol: int, release: str) -> tuple[str, str]:
        """Return the id of the node and the name of the machine; refuse a program with another protocol."""
        refuse_other_version(protocol, release)
        return ray.get_runtime_context().get_node_id(), platform.node()

    def serve(self, size: int, settings: Settings) -> Invitation:
        """Start the agent of a job on this node."""
        return start_agent(size, settings, ray.util.get_node_ip_address())

    async def run(
        self,
        invitation: Invitation,
        rank: int,
        settings: Settings | None,
        main: Main[Any],
        kwargs: dict[str, Any],
        *args: Any,
    ) -> Any:
        """Be a rank of a job."""
        return await be_rank(invitation, rank, settings, main, args, kwargs)


class _Actors(Allocation):
    """Actors that wait for jobs."""

    def __init__(self, actors: Sequence[Any], hosts: Sequence[str], settings: Settings | None) -> None:
        super().__init__(hosts, settings, _JOBS)
        self._actors = actors

    def _start(
        self, settings: Settings, main: Main[T], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> list[Awaitable[T]]:
        invitation = self._actors[0].serve.remote(self.size, settings)
        return [
            self._result(rank, actor.run.remote(invitation, rank, self._settings, main, kwargs, *args))
            for rank, actor in enumerate(self._actors)
        ]

    async def _result(self, rank: int, reference: Any) -> Any:
        try:
            return await reference
        except asyncio.CancelledError:
            with contextlib.suppress(ray.exceptions.RayError):
                ray.cancel(reference)
            raise
        except RayActorError as error:
            raise self._lost(rank, f"its actor on {self.hosts[rank]}: {error}") from error


@contextlib.asynccontextmanager
async def ranks(
    size: int,
    *,
    resources: Mapping[str, float] | None = None,
    strategy: str = "PACK",
    group: PlacementGroup | None = None,
    settings: Settings | None = None,
    **options: Any,
) -> AsyncIterator[Allocation]:
    """Allocate actors for ranks. At the end of the block, kill the actors and release their resources.

    Args:
        size: number of ranks.
        resources: resources of each rank, such as {"CPU": 1, "GPU": 1}; one CPU by default.
        strategy: how the ranks are placed on nodes: PACK, SPREAD, STRICT_PACK or STRICT_SPREAD.
        group: placement group to use instead of a new one; its first `size` bundles are the places of the ranks.
        settings: used by all ranks and the agent; by default they come from the environment.
        options: further options of the actors, such as runtime_env.

    Raises:
        TimeoutError: the cluster had no room for the actors within `start_timeout` seconds.
        OtherVersionError: an actor has a version of aiompi with another protocol.
    """
    check_size(size)
    wanted = dict(resources or {"CPU": 1})
    limit = (settings or load_settings()).start_timeout
    used = group or placement_group([wanted] * size, strategy=strategy)
    actors: list[Any] = []
    try:
        try:
            async with asyncio.timeout(limit):
                await used.ready()
                actors = [_actor(used, number, wanted, options) for number in range(size)]
                nodes = await asyncio.gather(*(actor.node.remote(*version.own) for actor in actors))
        except TimeoutError:
            raise TimeoutError(
                f"no room for {size} ranks with {wanted} each within {limit:g} s (start_timeout): the cluster has "
                f"{ray.cluster_resources()}, of which {ray.available_resources()} are free"
            ) from None
        first = {node: number for number, (node, _) in reversed([*enumerate(nodes)])}
        order = sorted(range(size), key=lambda number: first[nodes[number][0]])  # ranks of one node are neighbours
        yield _Actors([actors[each] for each in order], [nodes[each][1] for each in order], settings)
    finally:
        for actor in actors:
            ray.kill(actor)
        if group is None:
            remove_placement_group(used)


def _actor(group: Any, number: int, resources: Mapping[str, float], options: Mapping[str, Any]) -> Any:
    """Return a new actor in a bundle of a placement group."""
    named = {_OPTIONS[name]: amount for name, amount in resources.items() if name in _OPTIONS}
    others = {name: amount for name, amount in resources.items() if name not in _OPTIONS}
    strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=number)
    chosen = {"num_cpus": 0, **named, "resources": others, "scheduling_strategy": strategy, **options}
    return ray.remote(Place).options(**chosen).remote()


def run(size: int, main: Main[T], *args: Any, **placement: Any) -> list[T]:
    """Run one job in new actors, and block until it has ended. Call this outside event loops, such as in a Ray task.

    Args:
        size: number of ranks.
        main: function that each rank calls with its World and `args`.
        args: of `main`.
        placement: keyword arguments of `ranks`.

    Returns:
        The results, in rank order.
    """
    return run_in(ranks(size, **placement), main, args)
