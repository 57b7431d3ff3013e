//! Questions about sessions: one file a question.

mod artifact;
mod attempts;

pub use artifact::{ArtifactError, ArtifactFile, ArtifactFiles};
pub use attempts::{Attempt, AttemptArtifact, Attempts};
