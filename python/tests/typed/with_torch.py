"""The calls of docs/pytorch.md with a torch.nn.Module, for type checkers. It is checked, and not run."""

import accrue
import numpy as np
import torch
from numpy.typing import NDArray


def modules(x: NDArray[np.float32], y: NDArray[np.int64]) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    result = accrue.train(model, (x, y), micro_batch="auto", effective_batch=256, memory_limit="1GiB")
    model.load_state_dict(result.state_dict())
    network = accrue.from_torch(model, x, training=False)
    plan = accrue.plan(network, (x, y), effective_batch=256, memory="1GiB")
    result = accrue.train(network, (x, y), **plan.options())
    print(accrue.predict(result.weights, x, network), accrue.predict(model, x), accrue.evaluate(model, data=(x, y)))
    print(accrue.info(network), network.weights, network.state_dict(result.weights)["0.weight"])
    trainer = accrue.Trainer(model, (torch.as_tensor(x), torch.as_tensor(y)))
    trainer.run()
    model.load_state_dict(trainer.state_dict())
