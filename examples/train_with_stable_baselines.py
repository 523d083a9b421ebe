"""An agent of another library: MaskablePPO of sb3-contrib on loops of matrix products.

Run it with `python examples/train_with_stable_baselines.py`; it needs
`pip install 'loopwright[gym]' sb3-contrib`, which brings torch. A minute shows that it learns; for
good agents see `loopwright tune --train`, which needs neither.
"""

import sys

import gymnasium
from sb3_contrib import MaskablePPO

import loopwright.tuning.gym  # noqa: F401  registers the environments
from loopwright.tuning.tensor_nests import matmul_tree

TREES = [matmul_tree(m, n, 64) for m in (64, 96, 128) for n in (64, 96, 128)]


def mean_return(model: MaskablePPO, env: gymnasium.Env, episodes: int = 40) -> float:
    """The mean of log2 of the start's time over the last one's, over the same starts each time."""
    total = 0.0
    seen, info = env.reset(seed=1)
    for _ in range(episodes):
        over = cut = False
        while not (over or cut):
            action, _ = model.predict(seen, action_masks=info["action_mask"].astype(bool))
            seen, reward, over, cut, info = env.step(int(action))
            total += float(reward)
        seen, info = env.reset()
    return total / episodes


def main(steps: int = 8192) -> None:
    """Train for so many steps, from trees after random actions, and show what it has brought."""
    env = gymnasium.make("loopwright/Contraction-v0", trees=TREES, starts=["random"], steps=10)
    model = MaskablePPO("MlpPolicy", env, n_steps=512, batch_size=128, gamma=0.95, seed=0)
    before = mean_return(model, env)
    model.learn(steps)
    after = mean_return(model, env)
    print(f"log2 of the speed-up over the start: {before:.2f} before training, {after:.2f} after")
    assert after > before


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
