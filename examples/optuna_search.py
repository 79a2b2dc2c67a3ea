"""An Optuna search over two settings of a run; started again, it goes on where it stopped.

python examples/optuna_search.py 20 total_steps=500_000 eval.every=100_000
"""

import sys

import optuna

import reprl


def search(trials: int, *overrides: str) -> optuna.Study:
    def objective(trial: optuna.Trial) -> float:
        rate = trial.suggest_float("rate", 1e-5, 1e-3, log=True)
        mask = trial.suggest_categorical("attention", ["none", "conv", "conv_21"])
        words = [f"algo.learning_rate={rate}", f"attention={mask}", *overrides]
        run = reprl.train("plain", words)
        trial.set_user_attr("run", str(run.path))  # a run folder like any other
        if run.score is None:  # interrupted before the first score
            raise optuna.TrialPruned
        return run.score  # the best validation (eval.every), else the last of training

    study = optuna.create_study(
        study_name="search",
        storage="sqlite:///search.db",
        load_if_exists=True,
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=0),
    )
    study.optimize(objective, n_trials=trials)
    return study


if __name__ == "__main__":
    found = search(int(sys.argv[1]), *sys.argv[2:])
    print(f"best {found.best_value:g} with {found.best_params}: {found.best_trial.user_attrs}")
