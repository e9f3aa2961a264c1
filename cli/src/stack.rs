use clap::Args;

/// Which stack is meant, where an account and Region have several.
#[derive(Args)]
pub(crate) struct Stack {
    /// The name of the stack that the functions were deployed as.
    #[arg(long = "stack", default_value = "whittle", value_name = "NAME")]
    pub(crate) name: String,
}
