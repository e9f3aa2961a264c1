use aws_rules::instance_types as facts;
use aws_sdk_ec2::types;

pub(super) fn info(info: types::InstanceTypeInfo) -> facts::InstanceTypeInfo {
    let memory = info.memory_info.and_then(|memory| memory.size_in_mib);
    let vcpus = info.v_cpu_info.and_then(|vcpus| vcpus.default_v_cpus);
    let strategies = info.placement_group_info;
    let strategies = strategies.and_then(|groups| groups.supported_strategies);
    facts::InstanceTypeInfo {
        instance_type: text(info.instance_type).unwrap_or_default(),
        bare_metal: info.bare_metal.unwrap_or(false),
        hypervisor: text(info.hypervisor),
        supported_usage_classes: texts(info.supported_usage_classes),
        vcpu_info: facts::VCpuInfo {
            default_vcpus: number(vcpus),
        },
        processor_info: info.processor_info.map(processor).unwrap_or_default(),
        memory_info: facts::MemoryInfo {
            size_in_mib: memory.unwrap_or_default(),
        },
        ebs_info: info.ebs_info.map(ebs).unwrap_or_default(),
        network_info: info.network_info.map(network).unwrap_or_default(),
        gpu_info: info.gpu_info.map(gpus),
        neuron_info: info.neuron_info.map(neuron),
        inference_accelerator_info: info.inference_accelerator_info.map(inference),
        instance_storage_info: info.instance_storage_info.map(|storage| {
            facts::InstanceStorageInfo {
                total_size_in_gb: storage.total_size_in_gb.unwrap_or_default(),
                nvme_support: text(storage.nvme_support),
                disks: storage
                    .disks
                    .unwrap_or_default()
                    .iter()
                    .map(|disks| facts::Disks {
                        count: usize::try_from(number(disks.count)).unwrap_or(0),
                    })
                    .collect(),
            }
        }),
        nitro_enclaves_support: text(info.nitro_enclaves_support),
        placement_group_info: facts::PlacementGroupInfo {
            supported_strategies: texts(strategies),
        },
    }
}

fn text(value: Option<impl AsRef<str>>) -> Option<String> {
    value.map(|value| value.as_ref().to_owned())
}

fn texts<T: AsRef<str>>(values: Option<Vec<T>>) -> Vec<String> {
    let values = values.unwrap_or_default();
    values
        .iter()
        .map(|value| value.as_ref().to_owned())
        .collect()
}

fn number(value: Option<i32>) -> i64 {
    i64::from(value.unwrap_or_default())
}

fn processor(processor: types::ProcessorInfo) -> facts::ProcessorInfo {
    facts::ProcessorInfo {
        supported_architectures: texts(processor.supported_architectures),
        sustained_clock_speed_in_ghz: processor.sustained_clock_speed_in_ghz,
        manufacturer: processor.manufacturer,
        supported_features: texts(processor.supported_features),
    }
}

fn ebs(ebs: types::EbsInfo) -> facts::EbsInfo {
    let optimized = ebs.ebs_optimized_info.map(|optimized| {
        let bandwidth = optimized.maximum_bandwidth_in_mbps.map(i64::from);
        facts::EbsOptimizedInfo {
            maximum_bandwidth_in_mbps: bandwidth,
        }
    });
    facts::EbsInfo {
        ebs_optimized_support: text(ebs.ebs_optimized_support),
        ebs_optimized_info: optimized,
        maximum_ebs_attachments: ebs
            .maximum_ebs_attachments
            .and_then(|most| u32::try_from(most).ok()),
        attachment_limit_type: text(ebs.attachment_limit_type),
    }
}

fn network(network: types::NetworkInfo) -> facts::NetworkInfo {
    let cards = network.network_cards.unwrap_or_default();
    let card = |card: &types::NetworkCardInfo| facts::NetworkCard {
        network_card_index: number(card.network_card_index),
        maximum_network_interfaces: number(card.maximum_network_interfaces),
    };
    facts::NetworkInfo {
        network_cards: cards.iter().map(card).collect(),
        default_network_card_index: number(network.default_network_card_index),
        ipv4_addresses_per_interface: number(network.ipv4_addresses_per_interface),
        efa_info: network.efa_info.map(|efa| facts::EfaInfo {
            maximum_efa_interfaces: number(efa.maximum_efa_interfaces),
        }),
        ena_support: text(network.ena_support),
        encryption_in_transit_supported: network.encryption_in_transit_supported.unwrap_or(false),
    }
}

fn gpus(info: types::GpuInfo) -> facts::GpuInfo {
    let gpu = |gpu: types::GpuDeviceInfo| facts::Gpu {
        name: gpu.name,
        manufacturer: gpu.manufacturer,
        count: number(gpu.count),
        memory_info: facts::MemoryInfo {
            size_in_mib: number(gpu.memory_info.and_then(|memory| memory.size_in_mib)),
        },
    };
    let gpus = info.gpus.unwrap_or_default();
    facts::GpuInfo {
        gpus: gpus.into_iter().map(gpu).collect(),
    }
}

fn neuron(info: types::NeuronInfo) -> facts::NeuronInfo {
    let device = |device: types::NeuronDeviceInfo| facts::NeuronDevice {
        name: device.name,
        count: number(device.count),
        core_info: facts::CoreInfo {
            count: number(device.core_info.and_then(|cores| cores.count)),
        },
    };
    let devices = info.neuron_devices.unwrap_or_default();
    facts::NeuronInfo {
        neuron_devices: devices.into_iter().map(device).collect(),
    }
}

fn inference(info: types::InferenceAcceleratorInfo) -> facts::InferenceAcceleratorInfo {
    let accelerator = |device: types::InferenceDeviceInfo| facts::InferenceAccelerator {
        name: device.name,
        manufacturer: device.manufacturer,
        count: number(device.count),
    };
    let accelerators = info.accelerators.unwrap_or_default();
    facts::InferenceAcceleratorInfo {
        accelerators: accelerators.into_iter().map(accelerator).collect(),
    }
}
