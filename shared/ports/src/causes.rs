//! Formatting of errors with their causes.

/// Formats the error and its chain of causes, omitting causes that the text already contains.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
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
    struct TestError(&'static str, Option<Box<TestError>>);

    impl fmt::Display for TestError {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str(self.0)
        }
    }

    impl Error for TestError {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1
                .as_deref()
                .map(|cause| cause as &(dyn Error + 'static))
        }
    }

    fn caused_by(text: &'static str, cause: TestError) -> TestError {
        TestError(text, Some(Box::new(cause)))
    }

    #[test]
    fn causes_follow_the_error() {
        let error = caused_by(
            "dispatch failure",
            caused_by("io error", TestError("connection refused", None)),
        );
        assert_eq!(
            with_causes(&error),
            "dispatch failure: io error: connection refused"
        );
    }

    #[test]
    fn cause_already_in_the_text_is_not_repeated() {
        let error = caused_by(
            "io error: connection refused",
            TestError("connection refused", None),
        );
        assert_eq!(with_causes(&error), "io error: connection refused");
    }
}
