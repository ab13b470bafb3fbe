"""Watching the children: a list in pages, then what changes, for as long as the API server tells it.

kopf watches the ModelDeployments. It keeps a task and a memory for each object that it sees and reads a list in one
piece, and of children there are some ten to a resource.
"""

import asyncio
import logging
import random

from backstay_operator import kinds
from backstay_operator.client import ApiError, Client
from backstay_operator.handlers import Watcher
from backstay_operator.kinds import Kind
from backstay_operator.queue import backoff_seconds
from backstay_operator.store import CHILD_LABELS, Store, refresh_kind

log = logging.getLogger(__name__)

CHILDREN = (kinds.DEPLOYMENT, kinds.POD, kinds.SERVICE, kinds.ENDPOINT_SLICE)
TOO_OLD = 410
PAUSE_SECONDS = 0.1
"""Between two watches, should something on the way end each at once."""
STEADY_SECONDS = 20.0
"""A watch that lived so long is begun again soon, however often that happens."""
BOOKMARK, DELETED = "BOOKMARK", "DELETED"


async def children(client: Client, watcher: Watcher, store: Store, kind: Kind, namespace: str | None) -> None:
    """Watches one kind in a namespace (None: in the cluster) until it is cancelled.

    A watch that ends or breaks goes on where it was. Where the API server does not know that far back any more, or
    nothing was listed yet, everything is listed anew.
    """
    loop = asyncio.get_running_loop()
    version: int | None = None
    failures = 0
    while True:
        began = loop.time()
        try:
            if version is None:
                changed, version = await refresh_kind(client, store, kind, namespace)
                for key in changed:
                    watcher.wake(key)
            async for told, body in client.watch(kind, namespace, CHILD_LABELS, version):
                version, failures = int(body["metadata"]["resourceVersion"]), 0
                if told != BOOKMARK:
                    watcher.on_child(kind, told == DELETED, body)
            pause = PAUSE_SECONDS
        except ApiError as error:
            if error.status == TOO_OLD:
                version = None
            # One that breaks off after a while is nothing that anybody could mend, such as a proxy's idle timeout.
            failures = 1 if loop.time() - began >= STEADY_SECONDS else failures + 1
            log.log(logging.INFO if failures == 1 else logging.WARNING, "the watch of %s: %s", kind.plural, error)
            pause = backoff_seconds(failures, random.random())  # noqa: S311 - jitter
        except Exception as error:  # whatever it is: the other watches and the passes must go on
            version, failures = None, failures + 1
            log.error("the watch of %s: %s", kind.plural, type(error).__name__, exc_info=error)
            pause = backoff_seconds(failures, random.random())  # noqa: S311 - jitter
        await asyncio.sleep(pause)
