"""Seeds an account with the resources that exist before the first node: network, node role, instance profile and images."""

ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
# Minor versions that the tests' API server may report.
KUBERNETES_MINORS = range(29, 40)
RELEASE = "v20261101"


def account(client, cluster: str) -> dict:
    ec2 = client("ec2")
    discovery = [{"Key": "karpenter.sh/discovery", "Value": cluster}]
    images = {name: ec2.register_image(Name=name)["ImageId"] for name, _ in image_names()}
    return {
        **network(ec2, discovery),
        **identity(client("iam"), cluster),
        "images": images,
        "architectures": {images[name]: architecture for name, architecture in image_names()},
        "parameters": dict(image_parameters(images)),
    }


def network(ec2, discovery: list[dict]) -> dict:
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = {}
    for index, zone in enumerate(ZONES):
        subnet = ec2.create_subnet(
            VpcId=vpc,
            CidrBlock=f"10.0.{index * 16}.0/20",
            AvailabilityZone=zone,
            TagSpecifications=[{"ResourceType": "subnet", "Tags": discovery}],
        )
        subnets[zone] = subnet["Subnet"]["SubnetId"]
    group = ec2.create_security_group(
        GroupName="nodes",
        Description="Nodes",
        VpcId=vpc,
        TagSpecifications=[{"ResourceType": "security-group", "Tags": discovery}],
    )["GroupId"]
    return {"vpc": vpc, "subnets": subnets, "securityGroup": group}


def identity(iam, cluster: str) -> dict:
    role = f"KarpenterNodeRole-{cluster}"
    profile = f"KarpenterNodeInstanceProfile-{cluster}"
    trust = (
        '{"Version":"2012-10-17","Statement":[{"Effect":"Allow",'
        '"Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}'
    )
    iam.create_role(RoleName=role, AssumeRolePolicyDocument=trust)
    iam.create_instance_profile(InstanceProfileName=profile)
    iam.add_role_to_instance_profile(InstanceProfileName=profile, RoleName=role)
    return {"nodeRole": role, "instanceProfile": profile}


def image_names():
    for architecture in ("x86_64", "arm64"):
        for variant in ("standard", "nvidia") + (("neuron",) if architecture == "x86_64" else ()):
            yield f"amazon-eks-node-al2023-{architecture}-{variant}-{RELEASE}", architecture
        for variant in ("", "-nvidia"):
            yield f"bottlerocket-aws-k8s{variant}-{architecture}-{RELEASE}", architecture


def image_parameters(images: dict[str, str]):
    for minor in KUBERNETES_MINORS:
        eks, bottlerocket = f"/aws/service/eks/optimized-ami/1.{minor}", f"/aws/service/bottlerocket/aws-k8s-1.{minor}"
        for name, image in images.items():
            family, _, rest = name.removesuffix(f"-{RELEASE}").partition("-aws-k8s" if "bottlerocket" in name else "-al2023-")
            if family == "bottlerocket":
                variant, _, architecture = rest.rpartition("-")
                yield f"{bottlerocket}{variant}/{architecture}/latest/image_id", image
            else:
                architecture, _, variant = rest.rpartition("-")
                release = f"amazon-eks-node-al2023-{architecture}-{variant}-1.{minor}-{RELEASE}"
                for version in ("recommended", release):
                    yield f"{eks}/amazon-linux-2023/{architecture}/{variant}/{version}/image_id", image
