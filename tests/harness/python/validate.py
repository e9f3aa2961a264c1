"""Validates requests: reads them from standard input as JSON, and writes for each its operation and the violations of the service's model."""

import json
import sys

import models

requests = json.load(sys.stdin)
json.dump([models.validate(request["method"], request["path"], request["headers"], request["body"].encode()) for request in requests], sys.stdout)
