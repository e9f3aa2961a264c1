"""Compares the policies in the documentation with the template: the table of roles in docs/reference/permissions.md, and the relay's
policy in docs/how-to/kops-and-self-managed.md."""

import fnmatch
import json
import re

import iam_reference

ROLES_PAGE = "docs/reference/permissions.md"
RELAY_PAGE = "docs/how-to/kops-and-self-managed.md"
FUNCTIONS = {f"{name}Role" for name in ("Provisioner", "Lifecycle", "Disruption", "Terminator", "Interruption", "Housekeeper")}
# Placeholders of the relay's policy, as iam_reference resolves the template.
PLACEHOLDERS = {
    "<Region>": "us-east-1",
    "<account>": "123456789012",
    "<cluster>": "${aws:PrincipalTag/eks-cluster-name}",
    "<output Table>": "Ledger",
    "<output Bucket>": "Bucket",
}


def findings(template: dict, root):
    """Yields differences in both directions: name of the check, page, and message."""
    for message in role_differences(granted(template), documented((root / ROLES_PAGE).read_text())):
        yield "DOCS", ROLES_PAGE, message
    for message in relay_differences(template, (root / RELAY_PAGE).read_text()):
        yield "DOCS", RELAY_PAGE, message


def branches(value) -> list:
    """The values of every branch of Fn::If, as a list without AWS::NoValue."""
    if isinstance(value, list):
        return [of for item in value for of in branches(item)]
    if isinstance(value, dict) and "Fn::If" in value:
        return branches(value["Fn::If"][1:])
    return [] if value == {"Ref": "AWS::NoValue"} else [value]


def granted(template: dict) -> dict[str, set[str]]:
    """Actions of each role, from its own and its managed policies, whatever the parameters are. A managed policy of AWS is its name."""
    resources = template["Resources"]
    roles = {name: set() for name, of in resources.items() if of["Type"] == "AWS::IAM::Role"}
    for name, resource in resources.items():
        properties = resource["Properties"]
        if name in roles:
            roles[name] |= {str(iam_reference.resolved(template, arn)).rpartition("/")[2] for arn in properties.get("ManagedPolicyArns", ())}
        attached = [role["Ref"] for role in properties.get("Roles", ())] if resource["Type"] == "AWS::IAM::ManagedPolicy" else [name]
        for document in policies(resource):
            for statement in branches(document["Statement"]):
                if statement["Effect"] != "Allow":
                    continue
                for role in attached:
                    roles[role] |= set(iam_reference.several(statement["Action"]))
    return roles


def policies(resource: dict) -> list[dict]:
    if resource["Type"] == "AWS::IAM::ManagedPolicy":
        return [resource["Properties"]["PolicyDocument"]]
    if resource["Type"] == "AWS::IAM::Role":
        return [policy["PolicyDocument"] for policy in resource["Properties"].get("Policies", ())]
    return []


def documented(page: str) -> dict[str, set[str]]:
    """Actions by the role in a row's first cell; `every function` stands for the actions that the functions' roles share."""
    rows = {}
    for name, actions in re.findall(r"^\| (every function|`\w+Role`)[^|]*\| ([^|]+) \|$", page, re.MULTILINE):
        rows[name.strip("`")] = set(re.findall(r"`([\w:-]+)`", actions))
    shared = rows.pop("every function", set())
    return {role: actions | shared if role in FUNCTIONS else actions for role, actions in rows.items()}


def role_differences(granted: dict, documented: dict):
    for role in sorted(granted.keys() | documented.keys()):
        allowed, listed = granted.get(role, set()), documented.get(role, set())
        for action in sorted(allowed - listed):
            yield f"{role}: {action} is granted by the template and missing in the page"
        for action in sorted(listed - allowed):
            yield f"{role}: {action} is in the page and not granted by the template"


def relay_differences(template: dict, page: str):
    found = re.search(r"```json\n(\{\s*\"Version\".*?)```", page, re.DOTALL)
    if not found:
        yield "the page has no policy for the relay"
        return
    text = found.group(1)
    for placeholder, value in PLACEHOLDERS.items():
        text = text.replace(placeholder, value)
    shown = {statement["Sid"]: normalized(statement, {}) for statement in json.loads(text)["Statement"]}
    properties = {name: of["Properties"] for name, of in template["Resources"].items() if of["Type"] == "AWS::SQS::Queue"}
    names = {name: iam_reference.resolved(template, of["QueueName"]) for name, of in properties.items() if "QueueName" in of}
    needed = {}
    for document in policies(template["Resources"]["RelayRole"]):
        for statement in iam_reference.resolved(template, document)["Statement"]:
            needed[statement["Sid"]] = normalized(statement, names)
    for sid in sorted(shown.keys() | needed.keys()):
        if shown.get(sid) != needed.get(sid):
            yield f"the relay's statement {sid} is {shown.get(sid)}, the template has {needed.get(sid)}"


def normalized(statement: dict, queues: dict[str, str]) -> tuple:
    """Actions, resources and conditions of a statement, without the queues of lanes, which the page does not show."""
    resources = set()
    for arn in iam_reference.several(statement["Resource"]):
        stem, _, name = arn.rpartition(":")
        if not fnmatch.fnmatchcase(name, "*-vpc-[*]-*"):
            resources.add(f"{stem}:{queues.get(name, name)}")
    condition = json.dumps(statement.get("Condition", {}), sort_keys=True)
    return statement["Effect"], sorted(iam_reference.several(statement["Action"])), sorted(resources), condition


def self_test(template: dict, root) -> None:
    """Tests the check: a removed and an added action are found in each row, and a changed statement in the relay's policy."""
    page = (root / ROLES_PAGE).read_text()
    allowed, listed = granted(template), documented(page)
    for role in allowed:
        some = sorted(listed[role])[0]
        for wrong in ({**listed, role: listed[role] - {some}}, {**listed, role: listed[role] | {"s3:DeleteBucket"}}):
            found = [line for line in role_differences(allowed, wrong) if line.startswith(f"{role}: ")]
            assert any(some in line or "s3:DeleteBucket" in line for line in found), f"nothing is found in {role}"
    policy = (root / RELAY_PAGE).read_text()
    assert not list(relay_differences(template, policy)), "the page and the template differ already: the test would find nothing else"
    for wrong in (
        policy.replace('"dynamodb:UpdateItem"', '"dynamodb:PutItem"'),
        policy.replace("RELAY#<cluster>", "RELAY#*"),
        policy.replace(":whittle-lifecycle", ":whittle-interrupt"),
        policy.replace("/views/<cluster>/*", "/*"),
    ):
        assert wrong != policy, "the page no longer shows a statement that the test changes"
        assert list(relay_differences(template, wrong)), "nothing is found in the relay's policy"
