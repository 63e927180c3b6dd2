"""A daemon of its own process with one talker: it starts it or finds it, and serves it until it ends.

python daemon.py ARRIVALS STOP EVERY
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from fairlead.hosted.pipes import Pipes
from fairlead.system.keepers import NurseryLink
from fairlead.system.settings import Settings
from tests.hosted.agents import TALKER, Ledger


async def serve(arrivals: str, stop: str, every: int) -> None:
    """Serve the talker, and at its end print what was handled."""
    settings = Settings()
    nursery = NurseryLink(settings)
    await nursery.open(None)
    pipes = Pipes(settings, nursery)
    found = await pipes.found()
    if found:
        (pipe,) = found
    else:
        command = [sys.executable, "-c", TALKER, arrivals, stop]
        pipe = await pipes.start("talker", command, cwd="/", environment=os.environ)
    print("serving", pipe.pid, flush=True)
    over = asyncio.get_running_loop().create_future()
    ledger = Ledger(pipe, every, over.set_result)
    code = await over
    print(json.dumps({"code": code, **ledger.state}), flush=True)
    pipes.forget(pipe)
    pipes.close()
    await nursery.leave(for_good=False)


asyncio.run(serve(sys.argv[1], sys.argv[2], int(sys.argv[3])))
