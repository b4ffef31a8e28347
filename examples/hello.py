"""Every rank says hello, and the first one counts the machines.

    aiompi-launch -n 4 examples/hello.py

Without a launcher it is a job of one rank: python examples/hello.py
"""

from collections import Counter

from aiompi import MPI


def main() -> None:
    comm = MPI.COMM_WORLD
    host = MPI.Get_processor_name()
    print(f"Hello from rank {comm.rank} of {comm.size} on {host}")
    hosts = comm.gather(host, root=0)
    if comm.rank == 0:
        for name, ranks in Counter(hosts).items():
            print(f"{name}: {ranks} rank{'s' if ranks > 1 else ''}")


if __name__ == "__main__":
    main()
