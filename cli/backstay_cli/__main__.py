"""`python -m backstay_cli` is `backstay`."""

from backstay_cli.main import app

app(prog_name="backstay")
