//! `show`: what a session did, turn by turn.

use clap::Args;

use super::context::{Context, Failed};
use crate::reader::{Damage, Found, SessionReader};
use crate::session::{Chapter, Chapters};
use crate::view::{self, Timeline};

/// Show what an agent did, turn by turn
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  spanledger show last\n  spanledger show ses_0193 --turn 2 --full"
)]
pub(crate) struct Show {
    /// The session: its id, the beginning of it, or `last`
    #[arg(default_value = "last")]
    session: String,
    /// Only this turn
    #[arg(long, value_name = "N")]
    turn: Option<u32>,
    /// Cut nothing
    #[arg(long)]
    full: bool,
}

impl Show {
    /// A whole session, as by default.
    pub fn of(session: &str) -> Self {
        Self {
            session: session.to_owned(),
            turn: None,
            full: false,
        }
    }

    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let dir = context.store.resolve(&self.session)?;
        context.style.full = self.full;
        let (entry, damages) = context.store.read(&dir)?;
        let style = context.style.clone();
        context.lines(&view::header(&entry, &style))?;
        let timeline = Timeline::new(&style);
        each_chapter(&dir, |chapter| {
            if self.turn.is_some() && chapter.turn != self.turn {
                return Ok(());
            }
            context.line("")?;
            context.lines(&timeline.chapter(&chapter))
        })?;
        context.damaged(&damages)
    }
}

/// Calls `take` with each chapter of a session, in order. What is damaged.
pub(crate) fn each_chapter(
    dir: &std::path::Path,
    mut take: impl FnMut(Chapter) -> Result<(), Failed>,
) -> Result<Vec<Damage>, Failed> {
    let mut reader = SessionReader::open(dir)?;
    let mut chapters = Chapters::default();
    let mut damages = Vec::new();
    while let Some(found) = reader.next()? {
        match found {
            Found::Line(line) => chapters.take(&line),
            Found::Damaged(damage) => damages.push(damage),
        }
        while let Some(chapter) = chapters.ready() {
            take(chapter)?;
        }
    }
    chapters.finish().into_iter().try_for_each(take)?;
    Ok(damages)
}
