"""moto on a free port of 127.0.0.1, with the resources that a cluster's nodes need.

Known behaviour of moto 5.2.5:
- EC2 is broad: 1,395 instance types, offerings, spot prices, launch templates, CreateFleet of type `instant`. It never runs
  out of capacity, does not know ClientToken and answers 500 for capacity reservations; prices (Pricing) are 500 too.
- It accepts requests that AWS would reject: models.py validates them against the services' API models before moto handles them.
- Permissions are not enforced; any credentials do, and unknown ones belong to MOTO_ACCOUNT_ID.
- SSM refuses to put /aws/…, and RegisterImage forgets the architecture: both are written to its internal state.
- DescribeInstanceTypes for all its types takes four seconds of a core and is not paged, so only FAMILIES are left of them.
"""

import json
import logging
import os
import sys

import wire

wire.start_session()
announcements = wire.redirect_standard_output()
# moto reads these variables at import.
os.environ["MOTO_ACCOUNT_ID"] = wire.ACCOUNT
os.environ.setdefault("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")

import models  # noqa: E402
import seed  # noqa: E402
import moto.ec2.models.instance_types as instance_types  # noqa: E402
from moto.core.utils import utcnow  # noqa: E402
from moto.moto_server import threaded_moto_server  # noqa: E402
from moto.ec2.models import ec2_backends  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402
from moto.ssm.models import Parameter, ssm_backends  # noqa: E402


# One family of each kind that affects decisions: generations, processors, burstable, local disks, accelerators.
FAMILIES = "c5 c6g c7g g5 inf2 m5 m5d m6g m7g m7i r5 r7g t3 t4g".split()


def keep_few_families() -> None:
    def is_kept(name: str) -> bool:
        return name.split(".")[0] in FAMILIES

    types = instance_types.InstanceTypeBackend.instance_types
    types[:] = [instance_type for instance_type in types if is_kept(instance_type.name)]
    for by_region in instance_types.INSTANCE_TYPE_OFFERINGS.values():
        for offerings in by_region.values():
            offerings[:] = [offering for offering in offerings if is_kept(offering["InstanceType"])]


def describe_image_in_internal_state(image: str, architecture: str) -> None:
    ami = ec2_backends[wire.ACCOUNT][wire.REGION].amis[image]
    ami.architecture = architecture
    ami.root_device_name = "/dev/xvda"
    ami.root_device_type = "ebs"


def put_parameter_in_internal_state(name: str, value: str) -> None:
    parameters = ssm_backends[wire.ACCOUNT][wire.REGION]._parameters
    parameter = Parameter(wire.ACCOUNT, name, value, "String", None, None, None, utcnow(), version=1, data_type="text")
    parameters[name].append(parameter)


def validate_requests() -> None:
    dispatcher = threaded_moto_server.DomainDispatcherApplication
    threaded_moto_server.DomainDispatcherApplication = lambda create: models.validating_wsgi(dispatcher(create))


keep_few_families()
validate_requests()
# One line per request would hide the errors.
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
endpoint = "http://{}:{}".format(*server.get_host_and_port())
client = wire.clients(endpoint)
seeded = seed.account(client, cluster=json.loads(sys.argv[1])["cluster"])
for image, architecture in seeded.pop("architectures").items():
    describe_image_in_internal_state(image, architecture)
for name, value in seeded["parameters"].items():
    put_parameter_in_internal_state(name, value)
wire.answer_calls(client, announcements, {"endpoint": endpoint, "seed": seeded})
wire.end_everything()
