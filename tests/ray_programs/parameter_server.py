"""Workers compute gradients of a small linear fit; a server applies them."""

import ray


@ray.remote(num_cpus=0)
class ParameterServer:
    def __init__(self, rate):
        self.weights = [0.0, 0.0]
        self.rate = rate

    def apply(self, *gradients):
        for index in range(2):
            mean = sum(gradient[index] for gradient in gradients) / len(gradients)
            self.weights[index] -= self.rate * mean
        return self.weights

    def get_weights(self):
        return self.weights


@ray.remote
class DataWorker:
    def __init__(self, points):
        self.points = points

    def gradient(self, weights):
        slope, offset = weights
        errors = [(slope * x + offset - y, x) for x, y in self.points]
        return [
            sum(e * x for e, x in errors) / len(errors),
            sum(e for e, _ in errors) / len(errors),
        ]


ray.init()
server = ParameterServer.remote(0.1)
parts = [[(x / 4, 2 * x / 4 + 1) for x in range(start, 12, 3)] for start in range(3)]
workers = [DataWorker.remote(part) for part in parts]
weights = server.get_weights.remote()
for _ in range(200):
    weights = server.apply.remote(*[worker.gradient.remote(weights) for worker in workers])
slope, offset = ray.get(weights)
assert abs(slope - 2) < 0.05, slope
assert abs(offset - 1) < 0.05, offset
print("done")
