use std::collections::BTreeMap;

use ports::limits::dynamodb::{
    PARTITION_READS, PARTITION_WRITES, READ_UNIT_BYTES, WRITE_UNIT_BYTES,
};

/// Units that partitions have consumed in the current second. A request that begins within its partition's limit is served
/// completely.
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

    pub(super) fn try_write(&mut self, pk: &str, now: i64, bytes: usize, times: u64) -> bool {
        let second = self.second(pk, now);
        let allowed = second.writes < PARTITION_WRITES;
        if allowed {
            second.writes += units(bytes, WRITE_UNIT_BYTES) * times;
        }
        allowed
    }

    pub(super) fn try_read(&mut self, pk: &str, now: i64, bytes: usize) -> bool {
        let second = self.second(pk, now);
        let allowed = second.reads < PARTITION_READS;
        if allowed {
            second.reads += units(bytes, READ_UNIT_BYTES);
        }
        allowed
    }
}

fn units(bytes: usize, unit: usize) -> u64 {
    u64::try_from(bytes.div_ceil(unit).max(1)).unwrap_or(u64::MAX)
}
