"""Reads requests from standard input as JSON, and writes for each its operation and what the service's own model does not allow."""

import json
import sys

import models

requests = json.load(sys.stdin)
json.dump([models.judged(one["method"], one["path"], one["headers"], one["body"].encode()) for one in requests], sys.stdout)
