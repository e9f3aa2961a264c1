//! Recorded answers of AWS.

/// The answer to a call of Parameter Store with this target, or to an EC2 request with this body.
pub(crate) fn to(target: &str, body: &str) -> &'static str {
    match target {
        "AmazonSSM.GetParameter" if body.contains("/whittle/clusters") => ENTRY,
        "AmazonSSM.GetParameter" => IMAGE_PARAMETER,
        "AmazonSSM.GetParametersByPath" => ENTRIES,
        _ => {
            let is_action =
                |action: &&(&str, &str)| body.contains(&format!("Action={}&", action.0));
            EC2.iter().find(is_action).map_or("", |(_, answer)| answer)
        }
    }
}

const ENTRY: &str = r#"{"Parameter": {"Name": "/whittle/clusters/demo", "Type": "String", "Version": 1, "LastModifiedDate": 1787000000.5,
    "ARN": "arn:aws:ssm:us-east-1:000000000000:parameter/whittle/clusters/demo",
    "Value": "{\"type\":\"endpoint\",\"endpoint\":\"https://demo.example.com\",\"settings\":{\"kubernetesVersion\":\"1.35\",\"serviceCIDR\":\"10.100.0.0/16\"}}"}}"#;

const ENTRIES: &str = r#"{"Parameters": [{"Name": "/whittle/clusters/demo", "Value": "{\"type\":\"eks\"}"},
    {"Name": "/whittle/clusters/other", "Value": "{\"type\":"}]}"#;

const IMAGE_PARAMETER: &str =
    r#"{"Parameter": {"Name": "/image", "Type": "String", "Value": "ami-0123456789abcdef0"}}"#;

const EC2: &[(&str, &str)] = &[
    ("CreateFleet", CREATE_FLEET),
    ("CreateLaunchTemplate", CREATE_LAUNCH_TEMPLATE),
    ("DescribeCapacityReservations", RESERVATIONS),
    ("DescribeImages", IMAGES),
    ("DescribeInstanceStatus", STATUS),
    ("DescribeInstanceTypeOfferings", OFFERINGS),
    ("DescribeInstanceTypes", TYPES),
    ("DescribeInstances", INSTANCES),
    ("DescribeLaunchTemplates", TEMPLATES),
    ("DescribeSecurityGroups", SECURITY_GROUPS),
    ("DescribeSpotPriceHistory", SPOT_PRICES),
    ("DescribeSubnets", SUBNETS),
    ("RunInstances", DRY_RUN),
];

const CREATE_FLEET: &str = r#"<CreateFleetResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><fleetId>fleet-1</fleetId>
<errorSet><item><errorCode>InsufficientInstanceCapacity</errorCode><errorMessage>none left</errorMessage><lifecycle>on-demand</lifecycle>
<launchTemplateAndOverrides><overrides><instanceType>m5.large</instanceType><availabilityZone>us-east-1a</availabilityZone><subnetId>subnet-a</subnetId></overrides></launchTemplateAndOverrides></item></errorSet>
<fleetInstanceSet><item><instanceIds><item>i-2</item><item>i-1</item></instanceIds><instanceType>m5.xlarge</instanceType><lifecycle>spot</lifecycle>
<launchTemplateAndOverrides><overrides><instanceType>m5.xlarge</instanceType><subnetId>subnet-b</subnetId></overrides></launchTemplateAndOverrides></item></fleetInstanceSet></CreateFleetResponse>"#;

const CREATE_LAUNCH_TEMPLATE: &str = r#"<CreateLaunchTemplateResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><launchTemplate><launchTemplateId>lt-1</launchTemplateId></launchTemplate></CreateLaunchTemplateResponse>"#;

const RESERVATIONS: &str = r#"<DescribeCapacityReservationsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><capacityReservationSet><item>
<capacityReservationId>cr-0123456789abcdef0</capacityReservationId><ownerId>000000000000</ownerId><instanceType>m5.large</instanceType><availabilityZone>us-east-1a</availabilityZone>
<totalInstanceCount>5</totalInstanceCount><availableInstanceCount>2</availableInstanceCount><instanceMatchCriteria>targeted</instanceMatchCriteria><state>active</state>
<endDate>2026-09-01T00:00:00.000Z</endDate><endDateType>limited</endDateType><reservationType>default</reservationType></item></capacityReservationSet></DescribeCapacityReservationsResponse>"#;

const IMAGES: &str = r#"<DescribeImagesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><imagesSet><item><imageId>ami-0123456789abcdef0</imageId><name>amazon-eks-node</name>
<architecture>x86_64</architecture><creationDate>2026-08-01T00:00:00.000Z</creationDate><deprecationTime>2028-08-01T00:00:00.000Z</deprecationTime></item></imagesSet></DescribeImagesResponse>"#;

const STATUS: &str = r#"<DescribeInstanceStatusResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><instanceStatusSet><item><instanceId>i-1</instanceId>
<eventsSet><item><instanceEventId>e-1</instanceEventId><code>system-reboot</code><description>[Completed] reboot</description><notBefore>2026-08-25T00:00:00.000Z</notBefore></item></eventsSet>
<instanceState><code>16</code><name>running</name></instanceState><systemStatus><status>impaired</status><details><item><name>reachability</name><status>failed</status><impairedSince>2026-08-22T10:00:00.000Z</impairedSince></item></details></systemStatus>
<instanceStatus><status>ok</status></instanceStatus></item></instanceStatusSet></DescribeInstanceStatusResponse>"#;

const OFFERINGS: &str = r#"<DescribeInstanceTypeOfferingsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><instanceTypeOfferingSet>
<item><instanceType>m5.large</instanceType><locationType>availability-zone</locationType><location>us-east-1a</location></item></instanceTypeOfferingSet></DescribeInstanceTypeOfferingsResponse>"#;

const TYPES: &str = r#"<DescribeInstanceTypesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><instanceTypeSet><item><instanceType>m5.large</instanceType>
<currentGeneration>true</currentGeneration><bareMetal>false</bareMetal><supportedUsageClasses><item>on-demand</item><item>spot</item></supportedUsageClasses><hypervisor>nitro</hypervisor>
<processorInfo><supportedArchitectures><item>x86_64</item></supportedArchitectures><sustainedClockSpeedInGhz>3.1</sustainedClockSpeedInGhz></processorInfo>
<vCpuInfo><defaultVCpus>2</defaultVCpus><defaultCores>1</defaultCores></vCpuInfo><memoryInfo><sizeInMiB>8192</sizeInMiB></memoryInfo>
<instanceStorageInfo><totalSizeInGB>75</totalSizeInGB><nvmeSupport>required</nvmeSupport></instanceStorageInfo><ebsInfo><ebsOptimizedInfo><maximumBandwidthInMbps>4750</maximumBandwidthInMbps></ebsOptimizedInfo></ebsInfo>
<networkInfo><defaultNetworkCardIndex>0</defaultNetworkCardIndex><ipv4AddressesPerInterface>10</ipv4AddressesPerInterface><efaInfo><maximumEfaInterfaces>1</maximumEfaInterfaces></efaInfo>
<networkCards><item><networkCardIndex>0</networkCardIndex><baselineBandwidthInGbps>0.75</baselineBandwidthInGbps><maximumNetworkInterfaces>3</maximumNetworkInterfaces></item></networkCards></networkInfo>
<gpuInfo><gpus><item><name>T4</name><manufacturer>NVIDIA</manufacturer><count>1</count><memoryInfo><sizeInMiB>16384</sizeInMiB></memoryInfo></item></gpus></gpuInfo></item></instanceTypeSet></DescribeInstanceTypesResponse>"#;

const INSTANCES: &str = r#"<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><reservationSet><item><instancesSet><item><instanceId>i-1</instanceId><imageId>ami-1</imageId>
<instanceType>m5.large</instanceType><launchTime>2026-08-22T11:00:00.000Z</launchTime><instanceState><code>16</code><name>running</name></instanceState><privateDnsName>ip-10-0-0-1.ec2.internal</privateDnsName>
<placement><availabilityZone>us-east-1a</availabilityZone></placement><subnetId>subnet-a</subnetId><instanceLifecycle>spot</instanceLifecycle><capacityReservationId>cr-1</capacityReservationId>
<capacityReservationSpecification><capacityReservationPreference>capacity-reservations-only</capacityReservationPreference></capacityReservationSpecification>
<groupSet><item><groupId>sg-1</groupId></item></groupSet><tagSet><item><key>Name</key><value>a</value></item><item><key>karpenter.sh/nodeclaim</key><value>default-1</value></item></tagSet></item></instancesSet></item></reservationSet></DescribeInstancesResponse>"#;

const TEMPLATES: &str = r#"<DescribeLaunchTemplatesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><launchTemplates><item><launchTemplateName>karpenter.k8s.aws/1</launchTemplateName></item></launchTemplates></DescribeLaunchTemplatesResponse>"#;

const SECURITY_GROUPS: &str = r#"<DescribeSecurityGroupsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><securityGroupInfo><item><groupId>sg-1</groupId><groupName>nodes</groupName></item></securityGroupInfo></DescribeSecurityGroupsResponse>"#;

const SPOT_PRICES: &str =
    r#"<DescribeSpotPriceHistoryResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"/>"#;

const SUBNETS: &str = r#"<DescribeSubnetsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><subnetSet><item><subnetId>subnet-a</subnetId><availabilityZone>us-east-1a</availabilityZone>
<availabilityZoneId>use1-az1</availabilityZoneId><availableIpAddressCount>250</availableIpAddressCount></item></subnetSet></DescribeSubnetsResponse>"#;

const DRY_RUN: &str = "<Response><Errors><Error><Code>DryRunOperation</Code><Message>Request would have succeeded</Message></Error></Errors><RequestID>r</RequestID></Response>";
