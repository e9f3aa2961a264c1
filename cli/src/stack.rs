use clap::Args;

/// Option that selects a stack of the account and Region.
#[derive(Args)]
pub(crate) struct Stack {
    /// Name of the deployed stack
    #[arg(long = "stack", default_value = "whittle", value_name = "NAME")]
    pub(crate) name: String,
}
