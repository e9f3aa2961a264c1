//! The nouns of Whittle.
