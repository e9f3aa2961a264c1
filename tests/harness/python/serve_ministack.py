"""ministack on a free port of 127.0.0.1, with the functions' other endpoints in its environment.

Known behaviour of ministack 1.5.33:
- A `provided.al2023` function is a process that inherits ministack's environment, then gets the template's: so the
  endpoints of emulators need no parameter of the template. AWS_ENDPOINT_URL is always ministack's own. Processes stay
  warm for five minutes; one that dies fails its message, which returns after the queue's visibility time-out.
- It sets neither AWS_LAMBDA_LOG_FORMAT nor AWS_LAMBDA_LOG_LEVEL from LoggingConfig; they come from the environment too.
- Logs are in CloudWatch Logs under the function's log group, written when an invocation ends, and in ministack's own log.
- It accepts requests that AWS would reject: models.py validates them against the services' API models before ministack handles them.
- Credentials of an account's functions are its 12 digits; permissions are not enforced; AssumeRole takes session tags.
- CloudFormation knows every resource of our template but does not apply the table's TTL and encryption.
- It does not transform the templates of nested stacks.
- PutEvents refuses sources that begin with `aws.`: put the event on the interrupt queue instead.
- Its EC2 is incomplete: moto serves EC2 and IAM, and for SSM, which knows the AMI parameters.
- It unpacks functions into a directory of the temporary directory and never removes it, so it gets a directory of its own.
"""

import json
import os
import shutil
import socket
import sys
import tempfile
import time
import urllib.request

import wire

START_SECONDS = 60


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def serve_calls(endpoint: str, announcements, scratch: str) -> None:
    wait_until_ready(endpoint)
    wire.answer_calls(wire.clients(endpoint), announcements, {"endpoint": endpoint})
    wire.end_everything(scratch)


def wait_until_ready(endpoint: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            opener.open(f"{endpoint}/_ministack/ready", timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


wire.start_session()
announcements = wire.redirect_standard_output()
scratch = tempfile.mkdtemp(prefix="whittle-ministack-")
port = free_port()
endpoint = f"http://127.0.0.1:{port}"
os.environ.update(
    GATEWAY_PORT=str(port),
    BIND_HOST="127.0.0.1",
    MINISTACK_HOST="127.0.0.1",
    MINISTACK_ACCOUNT_ID=wire.ACCOUNT,
    MINISTACK_REGION=wire.REGION,
    TMPDIR=scratch,
    S3_DATA_DIR=f"{scratch}/s3",
    STATE_DIR=f"{scratch}/state",
    AWS_ENDPOINT_URL=endpoint,
    AWS_LAMBDA_LOG_FORMAT="JSON",
    **json.loads(sys.argv[1])["environment"],
)
del sys.argv[1:]
tempfile.tempdir = None

import models  # noqa: E402
from ministack import app  # noqa: E402

app.app = models.validating_asgi(app.app)
wire.in_background(serve_calls, endpoint, announcements, scratch)
try:
    app.main()
finally:
    shutil.rmtree(scratch, ignore_errors=True)
