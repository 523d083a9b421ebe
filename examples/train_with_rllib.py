"""An agent of another library: DQN with prioritised replay of RLlib on LoopTune's environment.

Run it with `python examples/train_with_rllib.py`; it needs `pip install 'loopwright[gym]'
'ray[rllib]' torch`, some 200 MB beside torch. RLlib pins gymnasium 1.2.2. A minute shows that
it runs; in its three iterations the mean return did not rise. For good agents see `loopwright tune
--train`, which needs neither.
"""

import sys

import numpy as np
import ray
from gymnasium import Env
from ray.rllib.algorithms.dqn import DQNConfig
from ray.tune.registry import register_env

from loopwright.tuning.gym import LoopTreeEnv
from loopwright.tuning.tensor_nests import matmul_tree

SHAPES = [(m, n, 64) for m in (64, 96, 128) for n in (64, 96, 128)]


def make(config: dict[str, object]) -> Env:
    """LoopTune's environment on the cost model."""
    return LoopTreeEnv("looptune", "model", [matmul_tree(*shape) for shape in SHAPES])


def main(iterations: int = 3) -> None:
    """Train for a few iterations and show the mean return of each."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    register_env("looptune", make)
    config = (
        DQNConfig()
        .environment("looptune")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=4)
        .training(n_step=3, double_q=True, num_steps_sampled_before_learning_starts=500)
    )
    algorithm = config.build_algo()
    returns = []
    for _ in range(iterations):
        found = algorithm.train()
        returns.append(found["env_runners"]["episode_return_mean"])
        print(f"mean return {returns[-1]:.3f}: change of the rate over the peak, per episode")
    assert np.isfinite(returns).all()
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
