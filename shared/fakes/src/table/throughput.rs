use std::collections::BTreeMap;

use ports::limits::dynamodb::{
    PARTITION_READS, PARTITION_WRITES, READ_UNIT_BYTES, WRITE_UNIT_BYTES,
};

/// Units that partitions have taken within a second. A request that begins within its partition's share goes through whole.
#[derive(Default)]
pub(super) struct Throughput {
    partitions: BTreeMap<String, Second>,
}

#[derive(Default)]
struct Second {
    at: i64,
    writes: u64,
    reads: u64,
}

impl Throughput {
    fn second(&mut self, pk: &str, now: i64) -> &mut Second {
        let second = self.partitions.entry(pk.to_owned()).or_default();
        if second.at != now {
            *second = Second {
                at: now,
                ..Second::default()
            };
        }
        second
    }

    pub(super) fn writes(&mut self, pk: &str, now: i64, bytes: usize, times: u64) -> bool {
        let second = self.second(pk, now);
        let takes = second.writes < PARTITION_WRITES;
        if takes {
            second.writes += units(bytes, WRITE_UNIT_BYTES) * times;
        }
        takes
    }

    pub(super) fn reads(&mut self, pk: &str, now: i64, bytes: usize) -> bool {
        let second = self.second(pk, now);
        let takes = second.reads < PARTITION_READS;
        if takes {
            second.reads += units(bytes, READ_UNIT_BYTES);
        }
        takes
    }
}

fn units(bytes: usize, unit: usize) -> u64 {
    u64::try_from(bytes.div_ceil(unit).max(1)).unwrap_or(u64::MAX)
}
