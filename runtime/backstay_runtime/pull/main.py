"""The process of the init container: settings from the environment, an exit code and a termination message."""

import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from backstay_contract import names
from backstay_contract.names import Env
from backstay_contract.termination import EXIT_CODES, GaveUp, Termination, write

from backstay_runtime.pull import log
from backstay_runtime.pull.download import Options
from backstay_runtime.pull.errors import PullError
from backstay_runtime.pull.pull import pull
from backstay_runtime.pull.settings import read_settings
from backstay_runtime.pull.storage import Storage
from backstay_runtime.pull.transport import Transport

HELP = """usage: python -m backstay_runtime pull

Brings the model that the environment names into the models folder, verified against its digest.

  BACKSTAY_MODEL_URI              s3://BUCKET/PREFIX
  BACKSTAY_MODEL_DIGEST           SHA-256 of manifest.json
  BACKSTAY_STORAGE_ENDPOINT       http(s)://HOST[:PORT]
  BACKSTAY_STORAGE_REGION         default us-east-1
  BACKSTAY_STORAGE_CREDENTIALS    folder with the files accessKey and secretKey; unset: anonymous
  BACKSTAY_MODELS_FOLDER          default /models; a folder that pods share is a cache: each digest is fetched once
  BACKSTAY_CACHE_BYTES            bytes that all models in it may take; those that nobody uses go first
  BACKSTAY_HARDWARE_PROFILE       JSON of the resource's hardware profile; compared with the manifest's
  BACKSTAY_TERMINATION_LOG        default /dev/termination-log
  BACKSTAY_ALLOW_LOOPBACK_STORAGE 1 allows a loopback endpoint: for development only
  SSL_CERT_FILE                   CA bundle for https endpoints

Exit codes: 0 the model is there; 1 internal error; 2 a setting is wrong; 10 digest mismatch; 11 not found;
12 credentials rejected; 13 storage unreachable; 14 endpoint refused; 15 no room; 16 manifest invalid;
17 hardware mismatch. Beside a code other than 0 the termination log has a JSON object with the reason.
"""


def main(argv: Sequence[str]) -> int:
    """Runs a pull; returns the exit code."""
    if argv:
        sys.stdout.write(HELP)
        return 0 if argv[0] in ("-h", "--help") else EXIT_CODES[GaveUp.SETTINGS_INVALID]
    # As a container's first process Python would ignore SIGTERM. All state on disk survives an end at any point.
    signal.signal(signal.SIGTERM, lambda number, _frame: os._exit(128 + number))
    return run(os.environ)


def run(env: Mapping[str, str]) -> int:
    """A pull with this environment; returns the exit code."""
    try:
        settings = read_settings(env)
        options = Options()
        transport = Transport(
            connections=options.requests,
            allow_loopback=settings.allow_loopback,
            ca_file=env.get("SSL_CERT_FILE"),
        )
        outcome = pull(settings, Storage(settings, transport), options, log.to_stdout)
    except PullError as error:
        return _give_up(error.termination, env)
    except Exception as error:
        log.to_stdout("internal error", level="error", trace=traceback.format_exc())
        return _give_up(Termination(reason=GaveUp.INTERNAL, message=f"{type(error).__name__}: {error}"), env)
    log.to_stdout("model is ready to be loaded", folder=str(outcome.folder), fetched=outcome.bytes_fetched)
    return 0


def _give_up(termination: Termination, env: Mapping[str, str]) -> int:
    code = EXIT_CODES[termination.reason]
    said = termination.to_json()
    log.to_stdout(f"gave up: {said.pop('message')}", level="error", exit_code=code, **said)
    path = Path(env.get(Env.TERMINATION_LOG) or names.Path.TERMINATION)
    try:
        path.write_text(write(termination), encoding="utf-8")
    except OSError as error:
        log.to_stdout("the termination log cannot be written", level="warning", path=str(path), error=str(error))
    return code
