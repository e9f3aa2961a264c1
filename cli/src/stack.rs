use clap::Args;

/// Option that selects a stack of the account and Region.
#[derive(Args)]
pub(crate) struct Stack {
    /// Name of the deployed stack
    #[arg(long = "stack", default_value = Stack::DEFAULT, value_name = "NAME")]
    pub(crate) name: String,
}

impl Stack {
    pub(crate) const DEFAULT: &str = "whittle";
}
