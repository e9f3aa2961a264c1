//! What happens with what users get wrong.
