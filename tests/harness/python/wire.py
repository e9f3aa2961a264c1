"""Protocol between the test process and an emulator: one JSON document per line.

The emulator announces its endpoint with one line when it is ready. Then every line on its standard input is a call,
{"service", "operation", "parameters"} with boto3's names, answered by {"ok": …} or {"error": …}. When the input ends
(the test is over, or was killed) the emulator ends, together with every process that it has started.
"""

import json
import os
import shutil
import signal
import sys
import threading

import boto3
import botocore.config

ACCOUNT = "123456789012"
REGION = "us-east-1"


def start_session() -> None:
    """Starts a session: killing its process group ends the functions too, and a Ctrl-C in the terminal reaches only the test."""
    os.setsid()


def redirect_standard_output():
    """Redirects standard output to the log, and returns the original for announcements and responses."""
    announcements = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return announcements


def clients(endpoint: str):
    """Returns a function that maps the name of a service to its client."""
    session = boto3.Session(aws_access_key_id=ACCOUNT, aws_secret_access_key="test", region_name=REGION)
    config = botocore.config.Config(retries={"max_attempts": 1}, proxies={})
    by_service = {}

    def client(service: str):
        if service not in by_service:
            by_service[service] = session.client(service, endpoint_url=endpoint, config=config)
        return by_service[service]

    return client


def answer_calls(client, announcements, announcement: dict) -> None:
    print(json.dumps(announcement), file=announcements)
    for line in sys.stdin:
        call = json.loads(line)
        try:
            operation = getattr(client(call["service"]), call["operation"])
            answer = operation(**call.get("parameters", {}))
            answer.pop("ResponseMetadata", None)
            print(json.dumps({"ok": answer}, default=encode), file=announcements)
        except Exception as error:  # every exception is reported to the test
            print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=announcements)


def encode(value):
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "read"):
        value = value.read()
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(value)


def end_everything(scratch: str | None = None) -> None:
    if scratch:
        shutil.rmtree(scratch, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


def in_background(function, *arguments) -> None:
    threading.Thread(target=function, args=arguments, daemon=True).start()
