//! Appending, on a disk that fails as the test says.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;

use super::segment::SharedSegment;
use super::*;
use crate::trace::{Dir, Ids};

/// What happens to the next operations, in order; nothing once they are used up.
#[derive(Debug, Default)]
struct Faults {
    /// How many bytes a write takes, or the error.
    writes: VecDeque<Option<usize>>,
    truncates: VecDeque<io::ErrorKind>,
    creates: VecDeque<io::ErrorKind>,
}

#[derive(Debug, Default)]
struct FaultyDisk(Mutex<Faults>);

impl FaultyDisk {
    fn next<T>(&self, of: impl Fn(&mut Faults) -> &mut VecDeque<T>) -> Option<T> {
        of(&mut self.0.lock().unwrap()).pop_front()
    }
}

impl Storage for FaultyDisk {
    fn create(&self, dir: &Dir, name: &str) -> io::Result<File> {
        match self.next(|faults| &mut faults.creates) {
            Some(kind) => Err(kind.into()),
            None => Disk.create(dir, name),
        }
    }

    fn append(&self, file: &mut File, bytes: &[u8]) -> io::Result<usize> {
        match self.next(|faults| &mut faults.writes) {
            Some(Some(count)) => file.write(&bytes[..count]),
            Some(None) => Err(io::ErrorKind::StorageFull.into()),
            None => file.write(bytes),
        }
    }

    fn truncate(&self, file: &File, size: u64) -> io::Result<()> {
        match self.next(|faults| &mut faults.truncates) {
            Some(kind) => Err(kind.into()),
            None => Disk.truncate(file, size),
        }
    }
}

/// Notes what it learns of segments.
#[derive(Debug, Default)]
struct Notes(Arc<Mutex<Vec<String>>>, Mutex<Vec<Arc<SharedSegment>>>);

#[derive(Debug)]
struct SegmentNotes(Arc<Mutex<Vec<String>>>, u32);

impl Listener for Notes {
    fn segment_opened(
        &self,
        segment: &Arc<SharedSegment>,
    ) -> Option<Box<dyn listener::SegmentListener>> {
        self.1.lock().unwrap().push(Arc::clone(segment));
        Some(Box::new(SegmentNotes(Arc::clone(&self.0), segment.number)))
    }
}

impl listener::SegmentListener for SegmentNotes {
    fn appended(&self, size: u64) {
        self.0.lock().unwrap().push(format!("{}:{size}", self.1));
    }

    fn sealed(&self) {
        self.0.lock().unwrap().push(format!("{} sealed", self.1));
    }
}

struct Scene {
    dir: TempDir,
    disk: Arc<FaultyDisk>,
    notes: Arc<Notes>,
    ledger: Ledger,
    writer: SessionWriter,
}

impl Scene {
    fn new(change: impl FnOnce(&mut LedgerConfig)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let disk = Arc::new(FaultyDisk::default());
        let notes = Arc::new(Notes::default());
        let mut config = LedgerConfig {
            root: dir.path().to_owned(),
            sync: SyncPolicy::Os,
            segment_size: u64::MAX,
            process: Arc::new(LazyLock::new(Box::new(|| "{}".to_owned()))),
            resource: Arc::default(),
            policy: None,
            digest_salt: Arc::default(),
            listeners: vec![Arc::<Notes>::clone(&notes)],
            storage: Arc::<FaultyDisk>::clone(&disk),
            counters: Arc::default(),
        };
        change(&mut config);
        let ledger = Ledger::new(config);
        let writer = SessionWriter::new(&ledger, "s");
        Self {
            dir,
            disk,
            notes,
            ledger,
            writer,
        }
    }

    fn faults(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.disk.0.lock().unwrap());
    }

    fn append(&mut self, kind: &str) -> bool {
        self.append_with(kind, &mut ())
    }

    fn append_with(&mut self, kind: &str, hooks: &mut dyn SessionHooks) -> bool {
        let meta = LineMeta {
            time: 1_700_000_000_000_000_000,
            kind,
            turn: None,
            ids: None,
        };
        let payload = |out: &mut Vec<u8>, _| out.extend_from_slice(b"\"x\":1,");
        let appended = self
            .writer
            .append(&mut Context::new(&self.ledger, hooks), meta, &payload);
        appended.is_some()
    }

    fn path(&self, segment: u32) -> PathBuf {
        self.writer.dir().join(crate::trace::segment_name(segment))
    }

    /// The lines of a segment; what is none stands as text.
    fn lines(&self, segment: u32) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path(segment)).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'));
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| line.into());
        text.lines().map(parse).collect()
    }

    fn kinds(&self, segment: u32) -> Vec<String> {
        let kind = |line: &Value| line["kind"].as_str().unwrap_or("torn").to_owned();
        self.lines(segment).iter().map(kind).collect()
    }

    fn notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.0.lock().unwrap())
    }
}

#[test]
fn append_takes_time_and_ids_from_its_caller() {
    let mut scene = Scene::new(|_| {});
    let meta = LineMeta {
        time: 1_000_000_000_000_000_000,
        kind: "tool_call",
        turn: Some(3),
        ids: Some(Ids {
            trace: 1,
            span: 2,
            parent: Some(3),
        }),
    };
    let appended = scene
        .writer
        .append(&mut Context::new(&scene.ledger, &mut ()), meta, &|_, _| {})
        .unwrap();
    let line = &scene.lines(1)[1];
    assert_eq!(line["ts"], "2001-09-09T01:46:40.000000Z");
    assert_eq!((&line["turn"], &line["seq"]), (&3.into(), &2.into()));
    assert_eq!(line["trace_id"], format!("{:032x}", 1));
    assert_eq!(line["parent_span_id"], format!("{:016x}", 3));
    assert_eq!(
        (appended.segment, scene.ledger.counters().written()),
        (1, 1)
    );
}

#[test]
fn short_write_is_completed() {
    let mut scene = Scene::new(|_| {});
    scene.append("a");
    scene.faults(|faults| faults.writes = [Some(20)].into());
    assert!(scene.append("b"));
    assert_eq!(scene.kinds(1), ["segment", "a", "b"]);
}

#[test]
fn truncates_after_a_short_write() {
    let mut scene = Scene::new(|_| {});
    scene.append("a");
    let size = scene.path(1).metadata().unwrap().len();
    scene.faults(|faults| faults.writes = [Some(20), None].into());
    assert!(!scene.append("lost"));
    assert_eq!(scene.path(1).metadata().unwrap().len(), size);
    assert!(scene.append("b"));
    assert_eq!(scene.kinds(1), ["segment", "a", "gap", "b"]);
    let seq: Vec<_> = scene
        .lines(1)
        .iter()
        .map(|line| line["seq"].clone())
        .collect();
    assert_eq!(seq, [1, 2, 3, 4]);
    let gap = &scene.lines(1)[2]["payload"];
    assert_eq!(
        (&gap["count"], &gap["by_kind"]["lost"]),
        (&1.into(), &1.into())
    );
    assert_eq!(scene.ledger.counters().failed(), 1);
    assert!(
        scene
            .ledger
            .counters()
            .last_error()
            .unwrap()
            .contains("no storage")
    );
}

#[test]
fn starts_a_new_line_where_truncating_fails() {
    let mut scene = Scene::new(|_| {});
    scene.append("a");
    scene.faults(|faults| {
        faults.writes = [Some(20), None].into();
        faults.truncates = [io::ErrorKind::PermissionDenied].into();
    });
    assert!(!scene.append("lost"));
    assert!(scene.append("b"));
    assert_eq!(scene.kinds(1), ["segment", "a", "torn", "gap", "b"]);
}

#[test]
fn line_that_lacks_its_newline_keeps_its_seq_where_truncating_fails() {
    let mut scene = Scene::new(|_| {});
    scene.append("a");
    let size = scene.lines(1)[1].to_string().len();
    scene.faults(|faults| {
        faults.writes = [Some(size), None].into();
        faults.truncates = [io::ErrorKind::PermissionDenied].into();
    });
    assert!(!scene.append("b"));
    assert!(scene.append("c"));
    assert_eq!(scene.kinds(1), ["segment", "a", "b", "gap", "c"]);
    let seq: Vec<_> = scene
        .lines(1)
        .iter()
        .map(|line| line["seq"].clone())
        .collect();
    assert_eq!(seq, [1, 2, 3, 4, 5]);
}

#[test]
fn segment_that_could_not_be_created_is_created_later() {
    let mut scene = Scene::new(|_| {});
    scene.faults(|faults| faults.creates = [io::ErrorKind::StorageFull].into());
    assert!(!scene.append("lost"));
    assert_eq!(
        scene
            .writer
            .flush(&mut Context::new(&scene.ledger, &mut ())),
        0
    );
    assert!(scene.append("a"));
    assert_eq!(scene.kinds(1), ["segment", "gap", "a"]);
}

/// An owner that has one line to write again, and leaves a span open.
struct Lossy {
    lost: bool,
    replayed: Vec<u32>,
    checkpoints: usize,
}

impl SessionHooks for Lossy {
    fn header(&mut self, segment: u32) -> SessionHeader {
        SessionHeader {
            implicit: Some("test"),
            counts_from: Some(segment),
        }
    }

    fn leaves_open(&self) -> bool {
        true
    }

    fn next_lost(&mut self, out: &mut Vec<u8>) -> Option<LineMeta<'static>> {
        out.extend_from_slice(b"\"late\":true,");
        self.lost.then_some(LineMeta {
            time: 0,
            kind: "again",
            turn: None,
            ids: None,
        })
    }

    fn replayed(&mut self, segment: u32) {
        self.lost = false;
        self.replayed.push(segment);
    }

    fn checkpoint(&mut self, out: &mut Vec<u8>) -> bool {
        self.checkpoints += 1;
        out.extend_from_slice(b"\"open\":[],");
        true
    }
}

fn lossy() -> Lossy {
    Lossy {
        lost: true,
        replayed: Vec::new(),
        checkpoints: 0,
    }
}

#[test]
fn lost_lines_are_replayed_after_the_gap() {
    let mut scene = Scene::new(|_| {});
    let mut owner = lossy();
    scene.faults(|faults| faults.writes = [None].into());
    assert!(!scene.append_with("lost", &mut owner), "its header");
    assert!(scene.append_with("a", &mut owner));
    assert_eq!(scene.kinds(1), ["segment", "gap", "again", "a"]);
    assert_eq!(scene.lines(1)[0]["payload"]["counts_from"], 1);
    assert_eq!(owner.replayed, [1]);
}

#[test]
fn full_segment_goes_on_in_another_one() {
    let mut scene = Scene::new(|config| config.segment_size = 300);
    for kind in ["a", "b", "c", "d"] {
        assert!(scene.append(kind));
    }
    assert_eq!(scene.kinds(1), ["segment", "a"]);
    assert_eq!(scene.kinds(2), ["segment", "b"]);
    let notes = scene.notes();
    let sealed: Vec<_> = notes
        .iter()
        .filter(|note| note.ends_with("sealed"))
        .collect();
    assert_eq!(sealed, ["1 sealed", "2 sealed", "3 sealed"]);
    let size = scene.path(4).metadata().unwrap().len();
    assert_eq!(*notes.last().unwrap(), format!("4:{size}"));
}

#[test]
fn full_segment_is_written_to_where_no_other_can_be_created() {
    let mut scene = Scene::new(|config| config.segment_size = 300);
    assert!(scene.append("a"));
    scene.faults(|faults| faults.creates = [io::ErrorKind::StorageFull].into());
    assert!(scene.append("b"));
    assert_eq!(scene.kinds(1), ["segment", "a", "b"]);
}

#[test]
fn checkpoint_follows_after_each_mebibyte() {
    let mut scene = Scene::new(|_| {});
    let mut owner = lossy();
    let meta = LineMeta {
        time: 1,
        kind: "big",
        turn: None,
        ids: None,
    };
    let big = format!("\"text\":\"{}\",", "x".repeat(600 << 10));
    for _ in 0..4 {
        let payload = |out: &mut Vec<u8>, _| out.extend_from_slice(big.as_bytes());
        scene
            .writer
            .append(&mut Context::new(&scene.ledger, &mut owner), meta, &payload);
    }
    let kinds = [
        "segment",
        "again",
        "big",
        "big",
        "checkpoint",
        "big",
        "big",
        "checkpoint",
    ];
    assert_eq!(scene.kinds(1), kinds);
    assert_eq!(owner.checkpoints, 2);
}

#[test]
fn closed_file_is_opened_again() {
    let mut scene = Scene::new(|_| {});
    scene.append("a");
    scene.writer.close_file();
    assert!(scene.append("b"));
    assert_eq!(scene.kinds(1), ["segment", "a", "b"]);
}

#[test]
fn removed_segment_is_counted_as_a_gap() {
    let mut scene = Scene::new(|_| {});
    scene.append("a");
    scene.append("b");
    std::fs::remove_file(scene.path(1)).unwrap();
    scene.writer.close_file();
    assert!(scene.append("c"));
    assert_eq!(scene.kinds(1), ["segment", "gap", "c"]);
    assert_eq!(scene.lines(1)[1]["payload"]["count"], 2);
    assert_eq!(scene.ledger.counters().failed(), 2);
}

#[test]
fn marker_stays_while_something_is_unsent_or_open() {
    let mut scene = Scene::new(|config| config.policy = Some("{}".into()));
    let root = Root::new(scene.dir.path().to_owned());
    let marked = || marker::marked(&root).unwrap().len();
    let mut owner = lossy();
    scene.append_with("open", &mut owner);
    let segment = Arc::clone(&scene.notes.1.lock().unwrap()[0]);
    let size = |scene: &Scene| scene.path(1).metadata().unwrap().len();
    segment.release(size(&scene)).unwrap();
    assert_eq!(marked(), 1, "a span is open");
    scene.append("close");
    segment.release(size(&scene) - 1).unwrap();
    assert_eq!(marked(), 1, "a byte is unsent");
    segment.release(size(&scene)).unwrap();
    assert_eq!(marked(), 0);
    scene.append("more");
    assert_eq!(marked(), 1);
}
