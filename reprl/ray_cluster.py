"""How a Ray cluster is named and joined: its address must answer first, or one sentence says why.

Settings of a launcher, of `sweep=pbt` or of an algorithm of RLlib's -> **arguments of ray.init**.
"""

from __future__ import annotations

import importlib.util
import os
import socket
from typing import Any

from reprl.errors import UserError

ANSWER = 5.0  # seconds a cluster's port has to answer
RAY_MEMORY = 78_643_200  # bytes of object store, Ray's least: jobs exchange files, not objects
# what RLlib imports besides what reprl needs itself
RLLIB = ("ray", "tree", "lz4", "ormsgpack", "pyarrow")


def init_arguments(arguments: dict[str, Any], key: str) -> dict[str, Any]:
    """Arguments of ray.init, once the cluster they name has answered; `key` is what names it."""
    address = arguments.get("address") or os.environ.get("RAY_ADDRESS")
    if address is None:
        return {"object_store_memory": RAY_MEMORY, "include_dashboard": False, **arguments}
    host, _, port = str(address).removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=ANSWER).close()
        except OSError as error:
            raise UserError(
                f"no Ray cluster answers at {key}={address}: "
                f"{error.strerror or error}; `ray start --head` prints its address."
            ) from None
    return {**arguments, "address": address}


def join(arguments: dict[str, Any], key: str) -> None:
    """Join the cluster that the arguments name, or start Ray on this machine, quietly."""
    import logging

    import ray

    for name in ("ray.rllib", "ray.tune"):
        logging.getLogger(name).setLevel(logging.ERROR)
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    found = init_arguments(arguments, key)
    if "address" in found:
        found = {k: v for k, v in found.items() if k not in ("num_cpus", "object_store_memory")}
    else:  # Ray would have its actors, and the trainings they start, wait for everybody else
        os.environ.setdefault("RAY_worker_niceness", "0")
    try:
        ray.init(**quiet, **found)
    except Exception as error:
        said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        raise UserError(
            f"Ray cannot be joined at {key}={found.get('address', 'null')}: "
            f"{said or type(error).__name__}"
        ) from error


def require_rllib(name: str) -> None:
    """Refuse to train with RLlib where it, or what it needs, is not installed."""
    missing = [module for module in RLLIB if importlib.util.find_spec(module) is None]
    if missing:
        raise UserError(
            f"{name} is trained by RLlib, and {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not installed: pip install 'reprl[ray]'."
        )
