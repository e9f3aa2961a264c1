//! The journal of a simulated cluster in the format of `whittle journal --export`.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use stories::Rig;
use tempfile::TempDir;

/// The cluster's NodePool with a limit that allows no nodes.
pub(crate) const LIMITED: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  limits: {cpu: 0}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: []
";

pub(crate) struct Recorded(TempDir);

impl Recorded {
    pub(crate) fn of(rig: &Rig) -> Self {
        let directory = tempfile::tempdir().unwrap();
        rig.sim.with(|world| {
            let records = world.ledger.of(&Rig::cluster()).journal.values();
            let lines: Vec<String> = records
                .map(|entry| serde_json::to_string(entry).unwrap())
                .collect();
            fs::write(directory.path().join("demo.jsonl"), lines.join("\n")).unwrap();
            for (name, object) in &world.ledger.archive {
                let path = directory.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, object).unwrap();
            }
        });
        Self(directory)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn whittle(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_whittle"))
            .args(arguments)
            .arg("--from")
            .arg(self.path())
            .output()
            .unwrap()
    }
}
