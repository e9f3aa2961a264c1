//! How errors are told: by what they say, never by how they are built.

/// The error with its causes, each said once.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::{error::Error, fmt};

    use super::*;

    #[derive(Debug)]
    struct Said(&'static str, Option<Box<Said>>);

    impl fmt::Display for Said {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str(self.0)
        }
    }

    impl Error for Said {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1
                .as_deref()
                .map(|cause| cause as &(dyn Error + 'static))
        }
    }

    fn because(text: &'static str, cause: Said) -> Said {
        Said(text, Some(Box::new(cause)))
    }

    #[test]
    fn causes_follow_the_error() {
        let error = because(
            "dispatch failure",
            because("io error", Said("connection refused", None)),
        );
        assert_eq!(
            with_causes(&error),
            "dispatch failure: io error: connection refused"
        );
    }

    #[test]
    fn cause_that_the_error_says_itself_is_not_said_again() {
        let error = because(
            "io error: connection refused",
            Said("connection refused", None),
        );
        assert_eq!(with_causes(&error), "io error: connection refused");
    }
}
