"""An agent of another library: MaskablePPO of sb3-contrib on loops of matrix products.

Run it with `python examples/train_with_stable_baselines.py`; it needs
`pip install 'loopwright[gym]' sb3-contrib`, which brings torch. The products begin in loop orders
that are slow; a minute of training finds better ones. For good agents see `loopwright tune
--train`, which needs neither.
"""

import sys

import gymnasium
from sb3_contrib import MaskablePPO

import loopwright.tuning.gym  # noqa: F401  registers the environments
from loopwright.tuning.actions import LOOPTUNE_ACTIONS, act
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.tensor_nests import matmul_tree

# From the order m, k, n to m, n, k; to k, m, n; to k, n, m.
ORDERS = (("down", "swap_down"), ("swap_down",), ("swap_down", "swap_down"))


def in_order(tree: LoopTree, actions: tuple[str, ...]) -> LoopTree:
    """The tree after these actions, with the cursor on its first loop."""
    for action in actions:
        tree = act(tree, action)
    return tree.at(0)


TREES = [in_order(matmul_tree(m, 96, 64), order) for m in (64, 96, 128) for order in ORDERS]


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


def main(steps: int = 16384) -> None:
    """Train for so many steps and show what it has brought."""
    given = {"trees": TREES, "steps": 6, "phases": False, "actions": LOOPTUNE_ACTIONS}
    env = gymnasium.make("loopwright/Contraction-v0", **given)
    model = MaskablePPO(
        "MlpPolicy", env, n_steps=512, batch_size=128, learning_rate=1e-3, gamma=0.95, seed=0
    )
    before = mean_return(model, env)
    model.learn(steps)
    after = mean_return(model, env)
    print(f"log2 of the speed-up over the start: {before:.2f} before training, {after:.2f} after")
    assert after > before + 0.3, "it has learned nothing"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
