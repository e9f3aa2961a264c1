"""Validates requests against the API models of botocore, which is pinned with the emulators.

Emulators accept requests that AWS rejects: empty lists, names that are too long, values that are in no enumeration. Requests of the
functions are therefore parsed by the protocol of the service and checked against its model: required members, unknown ones, lengths,
ranges, patterns and enumerations. A request that violates the model fails with the code ModelViolation, and does not reach the emulator.
"""

import base64
import binascii
import io
import json
import re
import sys
import urllib.parse

import botocore.exceptions
import botocore.session

import limits

CODE = "ModelViolation"
# botocore's service name by signing name, where they differ.
SERVICES = {"servicequotas": "service-quotas"}
# Signing names of services that are not validated: requests to S3 are built without an SDK and have hardly any parameters.
NOT_VALIDATED = {"s3"}
# Enumerations that grow with every new instance type, so that a pinned model is always incomplete.
OPEN_ENUMERATIONS = {"InstanceType"}
# Python equivalents of Java's Unicode character classes: letters, separators, numbers, marks, punctuation, symbols.
CLASSES = {"L": "a-zA-Z\u00aa-\uffff", "Z": " \u00a0", "N": "0-9", "M": "", "P": "", "S": ""}

_session = botocore.session.get_session()
_models = {}


def violations(method: str, path: str, headers: dict[str, str], body: bytes) -> list[str]:
    """Returns the violations of a request, one line each; none if its service is unknown."""
    return validate(method, path, headers, body)[1]


def validate(method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[str | None, list[str]]:
    """Returns the operation, such as `eks:CreateAccessEntry`, or None if it is unknown, and the violations of the request."""
    service = signed_for(headers.get("authorization", ""))
    if service is None or service in NOT_VALIDATED or "Botocore" in headers.get("user-agent", ""):
        return None, []
    model = model_of(SERVICES.get(service, service))
    if model is None:
        return None, []
    found = RequestParser(model, method, path, headers, body).read()
    if found is None:
        return None, [f"{service}: no operation for {method} {path} {headers.get('x-amz-target', '')}"]
    operation, parameters, unknown = found
    name = f"{service}:{operation.name}"
    wrong = [f"{name} is unknown" for name in unknown]
    if operation.input_shape is not None:
        wrong += check(operation.input_shape, parameters, "")
    if not wrong:
        return name, limits.exceeded(service, operation.name, parameters)
    return name, [f"{name}: {line}" for line in wrong]


def signed_for(authorization: str) -> str | None:
    scope = re.search(r"Credential=[^/]+/\d+/[^/]+/([^/]+)/aws4_request", authorization)
    return scope and scope.group(1)


def model_of(service: str):
    if service not in _models:
        try:
            _models[service] = _session.get_service_model(service)
        except botocore.exceptions.UnknownServiceError:
            _models[service] = None
    return _models[service]


class RequestParser:
    """Parses a request by the protocol of its service."""

    def __init__(self, model, method, path, headers, body):
        self.model, self.method, self.path, self.headers, self.body = model, method, path, headers, body
        self.unknown: list[str] = []

    def read(self):
        protocol = self.model.resolved_protocol
        if protocol in ("ec2", "query"):
            form = dict(urllib.parse.parse_qsl(self.body.decode(), keep_blank_values=True))
            return self.of_form(form, protocol)
        if protocol == "json":
            name = self.headers.get("x-amz-target", "").rpartition(".")[2]
            if name not in self.model.operation_names:
                return None
            return self.of_json(self.model.operation_model(name))
        if protocol == "rest-json":
            return self.of_path()
        return None

    def of_form(self, form, protocol):
        name = form.pop("Action", "")
        form.pop("Version", None)
        if name not in self.model.operation_names:
            return None
        operation = self.model.operation_model(name)
        tree = nested(form)
        value = self.structure(operation.input_shape, tree, protocol, "") if operation.input_shape else {}
        return operation, value, self.unknown

    def structure(self, shape, tree, protocol, at):
        value, known = {}, set()
        for member, of in shape.members.items():
            name = wire_name(of, member, protocol)
            if of.type_name == "list" and protocol == "query" and of.serialization.get("flattened"):
                name = of.member.serialization.get("name", name)
            known.add(name)
            if name in tree:
                value[member] = self.value(of, tree[name], protocol, f"{at}.{member}")
        self.unknown += [f"{at}.{name}".lstrip(".") for name in tree if name not in known and name != ""]
        return value

    def value(self, shape, tree, protocol, at):
        if shape.type_name == "structure":
            return self.structure(shape, tree, protocol, at)
        if shape.type_name == "list":
            if protocol == "query" and not shape.serialization.get("flattened"):
                tree = tree.get(shape.member.serialization.get("name", "member"), {})
            numbered = sorted(((int(nth), of) for nth, of in tree.items() if nth.isdigit()), key=lambda item: item[0])
            if protocol == "query" and tree.get("") == "":
                return []
            return [self.value(shape.member, of, protocol, f"{at}[{nth}]") for nth, of in numbered]
        if isinstance(tree, dict):
            tree = tree.get("", "")
        return scalar(shape, tree)

    def of_json(self, operation):
        body = json.loads(self.body or b"{}")
        return operation, self.object(operation.input_shape, body, ""), self.unknown

    def object(self, shape, value, at):
        if shape is None or value is None:
            return value
        if shape.type_name == "structure" and isinstance(value, dict) and not getattr(shape, "is_document_type", False):
            names = {of.serialization.get("name", member): (member, of) for member, of in shape.members.items()}
            self.unknown += [f"{at}.{name}".lstrip(".") for name in value if name not in names]
            return {
                names[name][0]: self.object(names[name][1], of, f"{at}.{name}") for name, of in value.items() if name in names
            }
        if shape.type_name == "list" and isinstance(value, list):
            return [self.object(shape.member, of, f"{at}[{nth}]") for nth, of in enumerate(value)]
        if shape.type_name == "map" and isinstance(value, dict):
            return {key: self.object(shape.value, of, f"{at}.{key}") for key, of in value.items()}
        return value

    def of_path(self):
        path, _, query = self.path.partition("?")
        for name in self.model.operation_names:
            operation = self.model.operation_model(name)
            wanted, _, _ = operation.http["requestUri"].partition("?")
            pattern = re.sub(r"\\\{(\w+)(?:\\\+)?\\\}", r"(?P<\1>[^/]+)", re.escape(wanted))
            matched = re.fullmatch(pattern, path)
            if operation.http["method"] != self.method or matched is None:
                continue
            shape = operation.input_shape
            value = self.of_body(shape)
            query_values = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
            for member, of in shape.members.items() if shape else ():
                place, wire = of.serialization.get("location"), of.serialization.get("name", member)
                text = {"uri": matched.groupdict(), "querystring": query_values}.get(place, {}).get(wire)
                if text is not None:
                    value[member] = scalar(of, urllib.parse.unquote(text))
            return operation, value, self.unknown
        return None

    def of_body(self, shape):
        if not self.body or shape is None:
            return {}
        return self.object(shape, json.loads(self.body), "")


def nested(form: dict[str, str]) -> dict:
    """Returns a form with names such as `Filter.1.Name` as a tree; the value of an inner node is under the empty name."""
    tree: dict = {}
    for name, text in form.items():
        place = tree
        for part in name.split("."):
            place = place.setdefault(part, {})
        place[""] = text
    return tree


def wire_name(shape, member: str, protocol: str) -> str:
    given = shape.serialization
    if protocol == "ec2":
        if "queryName" in given:
            return given["queryName"]
        name = given.get("name", member)
        return name[0].upper() + name[1:]
    return given.get("name", member)


def scalar(shape, text):
    kind = shape.type_name
    try:
        if kind in ("integer", "long"):
            return int(text)
        if kind in ("float", "double"):
            return float(text)
        if kind == "boolean":
            return {"true": True, "false": False}[text]
        if kind == "blob":
            return base64.b64decode(text, validate=True)
    except (ValueError, KeyError, binascii.Error):
        return InvalidScalar(text)
    return text


class InvalidScalar(str):
    """String that is not a valid value of its shape."""


def check(shape, value, at: str) -> list[str]:
    name = at.lstrip(".") or "the request"
    if isinstance(value, InvalidScalar):
        return [f"{name} is {value!r}, no {shape.type_name}"]
    kind = shape.type_name
    if kind == "structure":
        if getattr(shape, "is_document_type", False):
            return []
        missing = [member for member in shape.required_members if value.get(member) is None]
        wrong = [f"{at}.{member}".lstrip(".") + " is missing" for member in missing]
        for member, of in value.items():
            if of is not None:
                wrong += check(shape.members[member], of, f"{at}.{member}")
        return wrong
    if kind == "list":
        wrong = bounded(shape, len(value), f"{name} has {len(value)} elements")
        return wrong + [line for nth, of in enumerate(value) for line in check(shape.member, of, f"{at}[{nth}]")]
    if kind == "map":
        wrong = bounded(shape, len(value), f"{name} has {len(value)} entries")
        for key, of in value.items():
            wrong += check(shape.key, key, f"{at} key") + check(shape.value, of, f"{at}.{key}")
        return wrong
    if kind == "string":
        return check_text(shape, value, name)
    if kind in ("integer", "long", "float", "double"):
        return bounded(shape, value, f"{name} is {value}")
    if kind == "blob":
        return bounded(shape, len(value), f"{name} has {len(value)} bytes")
    return []


def bounded(shape, amount, what: str) -> list[str]:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    if least is not None and amount < least:
        return [f"{what}, at least {least} are wanted"]
    if most is not None and amount > most:
        return [f"{what}, at most {most} are allowed"]
    return []


def check_text(shape, value, name: str) -> list[str]:
    if not isinstance(value, str):
        return [f"{name} is {value!r}, no text"]
    wrong = bounded(shape, len(value), f"{name} has {len(value)} characters")
    allowed = shape.metadata.get("enum")
    if allowed and value not in allowed and shape.name not in OPEN_ENUMERATIONS:
        wrong.append(f"{name} is {value!r}, none of {', '.join(allowed[:8])}")
    pattern = shape.metadata.get("pattern")
    if pattern and not matches(pattern, value):
        wrong.append(f"{name} is {value!r}, which {pattern} does not match")
    return wrong


def matches(pattern: str, value: str) -> bool:
    translated = re.sub(r"\\p\{(\w)\w*\}", lambda found: CLASSES.get(found.group(1), ""), pattern)
    try:
        return re.fullmatch(translated, value, re.DOTALL) is not None
    except re.error:
        return True


def error_response(headers: dict[str, str], wrong: list[str]) -> tuple[str, bytes]:
    """Returns content type and body of the error for a request that violates its model."""
    code = code_of(wrong)
    for line in wrong:
        print(f"{code}: {line.removeprefix(code + ': ')}", file=sys.stderr, flush=True)
    text = "; ".join(line.removeprefix(code + ": ") for line in wrong)
    service = signed_for(headers.get("authorization", ""))
    if service in ("ec2", "iam", "sts", "autoscaling"):
        escaped = text.replace("&", "&amp;").replace("<", "&lt;")
        error = f"<Error><Code>{code}</Code><Message>{escaped}</Message></Error>"
        body = {
            "ec2": f"<Response><Errors>{error}</Errors><RequestID>r</RequestID></Response>",
        }.get(service, f"<ErrorResponse>{error}<RequestId>r</RequestId></ErrorResponse>")
        return "text/xml", body.encode()
    return "application/x-amz-json-1.1", json.dumps({"__type": code, "message": text}).encode()


def code_of(wrong: list[str]) -> str:
    """Returns the error code for a request that violates its model or exceeds a limit."""
    return limits.CODE if wrong[0].startswith(limits.CODE) else CODE


def validating_wsgi(application):
    """Wraps a WSGI application so that it receives only valid requests."""

    def validated(environ, start_response):
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        headers = {name[5:].replace("_", "-").lower(): text for name, text in environ.items() if name.startswith("HTTP_")}
        path = environ.get("RAW_URI") or environ.get("REQUEST_URI") or environ["PATH_INFO"]
        wrong = violations(environ["REQUEST_METHOD"], path, headers, body)
        if not wrong:
            return application(environ, start_response)
        kind, answer = error_response(headers, wrong)
        start_response("400 Bad Request", [("content-type", kind), ("x-amzn-errortype", code_of(wrong)), ("content-length", str(len(answer)))])
        return [answer]

    return validated


def validating_asgi(application):
    """Wraps an ASGI application so that it receives only valid requests."""

    async def validated(scope, receive, send):
        if scope["type"] != "http":
            return await application(scope, receive, send)
        body, messages = b"", []
        while True:
            message = await receive()
            messages.append(message)
            body += message.get("body", b"")
            if message["type"] != "http.request" or not message.get("more_body"):
                break
        headers = {name.decode().lower(): text.decode() for name, text in scope["headers"]}
        path = scope["path"] + ("?" + scope["query_string"].decode() if scope["query_string"] else "")
        wrong = violations(scope["method"], path, headers, body)

        async def again():
            return messages.pop(0) if messages else await receive()

        if not wrong:
            return await application(scope, again, send)
        kind, answer = error_response(headers, wrong)
        sent = [(b"content-type", kind.encode()), (b"x-amzn-errortype", code_of(wrong).encode())]
        await send({"type": "http.response.start", "status": 400, "headers": sent})
        await send({"type": "http.response.body", "body": answer})

    return validated
