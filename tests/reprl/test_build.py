"""Every YAML that composes also builds: each option of each part, and each experiment's agent."""

from collections.abc import Iterator

import pytest

from reprl.components import require_known_keys
from reprl.config.compose import compose, options
from reprl.config.schema import check
from reprl.envs import AtariVecEnv, make_vec_env
from reprl.runs.train import make_env, make_model
from reprl.schema import CHOSEN

pytestmark = pytest.mark.slow  # builds every part there is

SMALL = ["device=cpu", "threads=1", "env.n_envs=8"]
RGB_ONLY = "color_jitter"
PENDULUM = ["env=gymnasium", "env.id=Pendulum-v1"]  # continuous actions
NEEDS = {  # what an option does not build without
    "auxiliary": ["attention=conv_21"],  # some losses are about a mask
    "augmentation": ["auxiliary=contrastive"],  # one choice of views needs a loss
    "encoder=mlp": ["env=gymnasium"],  # numbers instead of pictures
    "encoder=mlp_256": ["env=gymnasium"],
    **{f"algo={name}": PENDULUM for name in ("sac", "td3", "ddpg")},
    "algo=pretrain": ["auxiliary=contrastive"],
    "algo=distillation": ["algo.teacher=agent:imitation"],
}
CASES = [
    (group, name)
    for group in (*CHOSEN, "experiment")
    for name in options(group)
    if name != RGB_ONLY
]


@pytest.fixture(scope="module")
def env() -> Iterator[AtariVecEnv]:
    games = make_vec_env(n_envs=8)
    yield games
    games.close()


@pytest.mark.parametrize(("group", "name"), CASES)
def test_every_option_builds(group: str, name: str, env: AtariVecEnv) -> None:
    more = NEEDS.get(f"{group}={name}", NEEDS.get(group, []))
    if name.startswith("procgen"):
        pytest.importorskip("envpool")
    if name == "reacher":
        pytest.importorskip("mujoco")
    config = check(compose([f"{group}={name}", *more, *SMALL]))
    for part in CHOSEN:  # what --cfg asks for without building
        require_known_keys(part, getattr(config, part))
    own = config.env.game != env.settings.game
    played = make_env(config) if own else env
    model = make_model(config, played)
    assert model.action_space == played.action_space
    if own:
        played.close()
    if group == "auxiliary":
        assert bool(model.auxiliary) == (name != "none")
