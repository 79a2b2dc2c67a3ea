"""A worker process: one block of emulators over shared memory, told what to do through a socket.

Started as `python -m reprl.envs.worker SOCKET MEMORY`; it ends when its parent does, however the
parent ended. Messages are one byte of order, with pickled arguments between our own processes.
"""

from __future__ import annotations

import mmap
import pickle
import signal
import sys
import traceback
from multiprocessing.connection import Connection

STEP, RESET, CALL = b"s", b"r", b"c"
DONE, FAILED, REFUSED, MISSING = b"d", b"f", b"u", b"m"
# Ctrl-C, a scheduler's warning and its end reach the whole process group; the parent decides.
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)


def main(socket: int, memory: int) -> None:
    """Serve the parent until it closes the socket or is gone."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    connection = Connection(socket)
    try:
        serve(connection, mmap.mmap(memory, 0))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the parent is gone


def _sendable(result: object) -> bytes:
    from reprl.errors import UserError

    try:
        return pickle.dumps(result)
    except Exception as error:  # whatever an object of the user's own raises
        raise UserError(f"a worker cannot send this ({error}): ask with workers=0.") from error


def serve(connection: Connection, memory: mmap.mmap) -> None:
    """Build the block from the first message, then answer every order with one message."""
    from reprl.envs.block import Arrays, Block, Missing
    from reprl.errors import UserError

    settings, variants, seed, first, total, begin = connection.recv()
    block = None
    order = payload = b""
    while True:
        try:
            result: object = None
            if block is None:
                arrays = Arrays.over(memory, total, settings)
                block = Block(settings, variants, seed, first, arrays, begin)
            elif order == STEP:
                result = block.step() or None
            elif order == RESET:
                block.reset(pickle.loads(payload))  # noqa: S301  # from our own parent
            elif order == CALL:
                name, calls = pickle.loads(payload)  # noqa: S301  # from our own parent
                result = [getattr(block, name)(*arguments) for arguments in calls]
            reply = DONE if result is None else DONE + _sendable(result)
        except UserError as error:
            reply = REFUSED + str(error).encode()
        except Missing as error:
            reply = MISSING + str(error).encode()
        except Exception:
            reply = FAILED + traceback.format_exc().encode()
        connection.send_bytes(reply)
        message = connection.recv_bytes()
        order, payload = message[:1], message[1:]


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
