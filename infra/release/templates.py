"""The templates of a release: functions come from published zips instead of folders of sources."""

import re

from common import ROOT, ReleaseError

PARAMETERS = """\
  ArtifactBucket:
    Type: String
    Default: ""
    AllowedPattern: ^[a-z0-9.-]*$
    ConstraintDescription: the name of a bucket
    Description: >-
      Bucket of this Region with the zips of the functions. Empty means the one that the release was published to,
      {bucket}-<Region>. A bucket of your own needs the same keys.
  ArtifactPrefix:
    Type: String
    Default: whittle/
    AllowedPattern: ^([A-Za-z0-9!_.*'()-]+/)*$
    ConstraintDescription: a prefix of keys that ends with a slash, or nothing
    Description: Prefix of the keys of the zips, before the version.
"""
CONDITION = '  OwnArtifactBucket: !Not [!Equals [!Ref ArtifactBucket, ""]]\n'
BUCKET = '!If [OwnArtifactBucket, !Ref ArtifactBucket, !Sub "{bucket}-${{AWS::Region}}"]'


def key(release, name):
    """The key of an artifact in the buckets, with the default prefix."""
    return f"whittle/{release.version}/{name}"


def published(release, text):
    """A template whose functions are zips in a bucket of its Region."""
    bucket = BUCKET.format(bucket=release.bucket)

    def code(match):
        indent, function = match.groups()
        return (
            f"{indent}CodeUri:\n{indent}  Bucket: {bucket}\n"
            f'{indent}  Key: !Sub "${{ArtifactPrefix}}{release.version}/{function}-${{Architecture}}.zip"\n'
        )

    text, found = re.subn(r"^( +)CodeUri: (?:\.\./)?functions/(\S+)\n", code, text, flags=re.MULTILINE)
    if found == 0:
        raise ReleaseError("a template names no folder of a function")
    text = re.sub(r"^ +Metadata: \{BuildMethod: rust-cargolambda\}\n", "", text, flags=re.MULTILINE)
    text = insert(text, "Parameters:\n", PARAMETERS.format(bucket=release.bucket))
    return insert(text, "Conditions:\n", CONDITION)


def insert(text, heading, lines):
    before, found, after = text.partition(f"\n{heading}")
    if not found:
        raise ReleaseError(f"a template has no section {heading.strip()}")
    return before + found + lines + after


def replace(text, old, new):
    if text.count(old) != 1:
        raise ReleaseError(f"a template has {old!r} {text.count(old)} times, not once")
    return text.replace(old, new)


def stack(release):
    text = published(release, (ROOT / "sam-template.yaml").read_text())
    own = "https://${ArtifactBucket}.s3.${AWS::Region}.${AWS::URLSuffix}/${ArtifactPrefix}"
    ours = own.replace("${ArtifactBucket}", release.bucket + "-${AWS::Region}")
    file = f"{release.version}/vpc-lane.yaml"
    # SAM accepts no expression for a nested template, and generates a resource of this type itself.
    text = replace(text, "  VpcLane:\n    Type: AWS::Serverless::Application\n", "  VpcLane:\n    Type: AWS::CloudFormation::Stack\n")
    text = replace(
        text,
        '      Location: infra/vpc-lane.yaml\n      Tags: {"whittle.sh/stack": !Ref AWS::StackName}\n      Parameters:\n',
        f'      TemplateURL: !If [OwnArtifactBucket, !Sub "{own}{file}", !Sub "{ours}{file}"]\n'
        "      Tags: [{Key: whittle.sh/stack, Value: !Ref AWS::StackName}]\n      Parameters:\n"
        "        ArtifactBucket: !Ref ArtifactBucket\n        ArtifactPrefix: !Ref ArtifactPrefix\n",
    )
    return text


def lane(release):
    return published(release, (ROOT / "infra/vpc-lane.yaml").read_text())


def quick_create(release, region):
    """The page of the console that creates the stack."""
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    template = f"https://{release.bucket}-{region}.s3.{region}.{suffix}/{key(release, 'template.yaml')}"
    template = template.replace(":", "%3A").replace("/", "%2F")
    return (
        f"https://console.aws.amazon.com/cloudformation/home?region={region}"
        f"#/stacks/quickcreate?stackName=whittle&templateURL={template}"
    )


# The Serverless Application Repository takes neither expressions for code nor nested templates.
LANE_BLOCKS = ("VpcLaneId", "VpcLaneSubnetIds", "VpcLaneSecurityGroupIds", "VpcLaneIsComplete", "HasVpcLane", "VpcLane")
SAR_REGION = "us-east-1"


def application(release):
    """The template for the Serverless Application Repository: functions for arm64, without a lane of a VPC."""
    text = (ROOT / "sam-template.yaml").read_text()
    zips = f"s3://{release.bucket}-{SAR_REGION}/{key(release, '')}"
    text = re.sub(r"^( +CodeUri: )functions/(\S+)\n", rf"\1{zips}\2-arm64.zip\n", text, flags=re.MULTILINE)
    text = re.sub(r"^ +Metadata: \{BuildMethod: rust-cargolambda\}\n", "", text, flags=re.MULTILINE)
    for name in LANE_BLOCKS:
        text, found = re.subn(rf"^  {name}:(?: .*)?\n(?:(?:    .*)?\n(?=    |\n|  \S|\S))*", "", text, flags=re.MULTILINE)
        if found != 1:
            raise ReleaseError(f"sam-template.yaml has {name} {found} times, not once")
    text = re.sub(r"^  VpcLane\w+: \{Condition: HasVpcLane, .*\n", "", text, flags=re.MULTILINE)
    text = replace(text, ", VpcLaneId, VpcLaneSubnetIds, VpcLaneSecurityGroupIds]", "]")
    text = replace(text, "AllowedValues: [arm64, x86_64]", "AllowedValues: [arm64]")
    owner = release.repository.partition("/")[0]
    metadata = f"""\
  AWS::ServerlessRepo::Application:
    Name: whittle
    Description: Karpenter's node autoscaling for Kubernetes on AWS, without a controller in the cluster
    Author: {owner}
    SpdxLicenseId: Apache-2.0
    LicenseUrl: {zips}LICENSE
    ReadmeUrl: {zips}README.md
    Labels: [kubernetes, karpenter, autoscaling, eks]
    HomePageUrl: https://github.com/{release.repository}
    SourceCodeUrl: https://github.com/{release.repository}/tree/v{release.version}
    SemanticVersion: {release.version}
"""
    return insert(text, "Metadata:\n", metadata)
