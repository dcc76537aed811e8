"""A round with a Python function: d doubles to the workers, d doubles from each, added up. One line of JSON.

    python_rounds.py qjam --workers 4 --doubles 8 --rounds 1000
    python_rounds.py pool | ray | dask …

What is compared is what people would write: the function gets the vector and gives back twice the vector; the data that
stays with the workers is one number for each.
"""

import argparse
import json
import statistics
import time

import numpy as np


def twice(vector):
    return vector * 2.0


def twice_with_data(vector, numbers):
    return vector * 2.0


class OfQjam:
    """Local workers, each with an interpreter of its own: `Master("local:N")`."""

    def __init__(self, workers):
        from qjam import DataSet, Master

        self.master = Master(f"local:{workers}")
        self.data = DataSet(np.arange(float(workers)).reshape(workers, 1), slice_size=1)

    def round(self, vector):
        return self.master.run(twice_with_data, vector, self.data)

    def close(self):
        self.master.close()


class OfPool:
    """The standard library's processes. The pool has no data of its own, so the vector is sent once for each worker."""

    def __init__(self, workers):
        import multiprocessing

        self.workers = workers
        self.pool = multiprocessing.Pool(workers)

    def round(self, vector):
        return sum(self.pool.map(twice, [vector] * self.workers, chunksize=1))

    def close(self):
        self.pool.terminate()
        self.pool.join()


class OfRay:
    """Actors, which keep their number; the vector goes through the object store."""

    def __init__(self, workers):
        import ray

        self.ray = ray
        ray.init(
            num_cpus=workers,
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
            object_store_memory=1 << 30,
        )

        @ray.remote(num_cpus=1)
        class Worker:
            def __init__(self, number):
                self.number = np.array([number])

            def twice(self, vector):
                return twice_with_data(vector, self.number)

        self.actors = [Worker.remote(float(number)) for number in range(workers)]

    def round(self, vector):
        sent = self.ray.put(vector)
        return sum(self.ray.get([actor.twice.remote(sent) for actor in self.actors]))

    def close(self):
        self.ray.shutdown()


class OfDask:
    """Processes with one thread each; numbers stay with the workers, the vector is scattered to all of them."""

    def __init__(self, workers):
        from distributed import Client, LocalCluster

        options = {"dashboard_address": None, "memory_limit": 0, "silence_logs": 50}
        self.cluster = LocalCluster(n_workers=workers, threads_per_worker=1, **options)
        self.client = Client(self.cluster)
        self.places = list(self.client.scheduler_info(n_workers=-1)["workers"])
        self.data = [
            self.client.submit(np.full, 1, float(i), workers=[place], pure=False)
            for i, place in enumerate(self.places)
        ]

    def round(self, vector):
        sent = self.client.scatter(vector, broadcast=True, hash=False)
        asked = [
            self.client.submit(twice_with_data, sent, part, workers=[place], pure=False)
            for part, place in zip(self.data, self.places)
        ]
        return sum(self.client.gather(asked))

    def close(self):
        self.client.close()
        self.cluster.close()


KINDS = {"qjam": OfQjam, "pool": OfPool, "ray": OfRay, "dask": OfDask}


def arguments():
    parser = argparse.ArgumentParser(description="rounds with a Python function")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--doubles", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=1000)
    return parser.parse_args()


def measure(options):
    peer = KINDS[options.kind](options.workers)
    try:
        times_us = []
        warm_up = max(5, options.rounds // 10)
        for i in range(warm_up + options.rounds):
            vector = np.full(options.doubles, float(i))
            began = time.perf_counter_ns()
            total = peer.round(vector)
            took_us = (time.perf_counter_ns() - began) / 1e3
            if i >= warm_up:
                times_us.append(took_us)
            if not (total[0] == total[-1] == 2.0 * options.workers * i):
                raise SystemExit(f"round {i} gave {total[0]} instead of {2.0 * options.workers * i}")
        return sorted(times_us)
    finally:
        peer.close()


def main():
    options = arguments()
    times_us = measure(options)
    figures = {
        "peer": options.kind,
        "workers": options.workers,
        "doubles": options.doubles,
        "rounds": options.rounds,
        "median_us": round(statistics.median(times_us), 1),
        "p99_us": round(times_us[min(len(times_us) - 1, len(times_us) * 99 // 100)], 1),
    }
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
