//! What the sessions of an import share: the root's ledger, and redaction with the root's key.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};

use super::progress::Progress;
use super::staging::Staging;
use crate::error::Error;
use crate::ledger::{Disk, Ledger, LedgerConfig, SyncPolicy};
use crate::redact::{
    JsonFile, Limits, MaskKey, Output, Redaction, Redactor, Store, StoreFailed, Tally,
    load_or_create_key,
};
use crate::trace::{Root, write_string};

/// A segment that is longer than this is continued by another one.
const SEGMENT_SIZE: u64 = 1 << 30;

#[derive(Debug)]
pub(super) struct Writer {
    pub staging: Staging,
    pub ledger: Ledger,
    pub progress: Progress,
    redactor: Redactor,
    limits: Limits,
}

impl Writer {
    pub fn new(root: PathBuf) -> Result<Self, Error> {
        let root = std::path::absolute(&root).unwrap_or(root);
        let key = load_or_create_key(&Root::new(root.clone())).map_err(|source| Error::Io {
            path: root.clone(),
            source,
        })?;
        let key = MaskKey::new(key);
        let process = || json!({"pid": std::process::id()}).to_string();
        let config = LedgerConfig {
            root: root.clone(),
            sync: SyncPolicy::Os,
            segment_size: SEGMENT_SIZE,
            process: Arc::new(LazyLock::new(Box::new(process))),
            resource: Arc::new(json!({})),
            policy: None,
            digest_salt: key.digest_salt().into(),
            listeners: Vec::new(),
            storage: Arc::new(Disk),
            counters: Arc::default(),
        };
        let ledger = Ledger::new(config);
        let staging = Staging::begin(&ledger).map_err(|source| Error::Io {
            path: root.join("importing"),
            source,
        })?;
        Ok(Self {
            staging,
            ledger,
            progress: Progress::default(),
            redactor: Redactor::new(&Redaction::default(), key)?,
            limits: Limits::default(),
        })
    }

    /// A text without secrets.
    pub fn text(&self, text: &str) -> String {
        let clean = self.redactor.text(text, &mut Tally::default());
        clean.into_owned()
    }

    /// The next piece of a file of JSON, without secrets.
    pub fn redact_file(&self, file: &mut JsonFile, piece: &str) -> String {
        file.push(&self.redactor, piece)
    }

    /// The rest of a file of JSON, without secrets.
    pub fn redact_rest(&self, file: JsonFile) -> String {
        file.finish(&self.redactor)
    }

    /// A digest from which a short text can't be guessed.
    pub fn keyed_digest(&self, bytes: &[u8]) -> u128 {
        self.redactor.keyed_digest(bytes)
    }

    /// The members of an object without secrets, each followed by a comma. Long ones are moved to blobs.
    pub fn members(&self, session: &Path, object: &Map<String, Value>) -> Vec<u8> {
        let mut line = Vec::new();
        let mut store = SessionBlobs {
            ledger: &self.ledger,
            session,
        };
        for (key, value) in object {
            let name = self.redactor.field(key);
            match name.member() {
                // It is spelled with its quotes and its colon.
                Some(member) => line.extend_from_slice(member.as_bytes()),
                None => {
                    write_string(&self.text(key), &mut line);
                    line.push(b':');
                }
            }
            let output = &mut Output {
                line: &mut line,
                limits: &self.limits,
                store: &mut store,
                tally: &mut Tally::default(),
            };
            match value {
                Value::String(text) => self.redactor.write_str(name, text, output),
                value => {
                    let json = value.to_string();
                    if self.redactor.write_json(name, &json, output).is_err() {
                        self.redactor.write_str(name, &json, output);
                    }
                }
            }
            line.push(b',');
        }
        line
    }
}

struct SessionBlobs<'a> {
    ledger: &'a Ledger,
    session: &'a Path,
}

impl Store for SessionBlobs<'_> {
    fn put(&mut self, sha256: &str, bytes: &[u8]) -> Result<(), StoreFailed> {
        let stored = self.ledger.store_blob(self.session, sha256, bytes);
        stored.map_err(|_| StoreFailed)
    }
}
