//! Forks of a process while one of its threads holds a lock.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::sync::mpsc;

use crate::support::agent::Agent;
use crate::support::{Recording, child};
use crate::write_calls;

#[test]
fn fork_during_recovery_does_not_keep_the_lock() {
    child::alone(|| {
        let dir = tempfile::tempdir().unwrap();
        let mut agent = Agent::start(dir.path());
        agent.send(&["run run s"]);
        agent.kill();
        let next = Recording::again(dir);
        let lock = next.dir.path().join("sessions/s/lock");
        let (paused, is_paused) = mpsc::channel();
        let (resume, may_resume) = mpsc::channel();
        let (mut born, announce) = std::io::pipe().unwrap();
        let child = std::thread::scope(|scope| {
            let handle = next.handle();
            let recovery = scope.spawn(move || {
                write_calls::before_next(move || {
                    paused.send(()).unwrap();
                    may_resume.recv().unwrap();
                });
                handle.session("s").recover()
            });
            is_paused.recv().unwrap();
            assert!(File::open(&lock).unwrap().try_lock().is_err());
            // SAFETY: the child reports that it exists, and does nothing until it is killed.
            let child = unsafe { libc::fork() };
            if child == 0 {
                unsafe { libc::write(announce.as_raw_fd(), [1].as_ptr().cast(), 1) };
                loop {
                    unsafe { libc::pause() };
                }
            }
            born.read_exact(&mut [0]).unwrap();
            resume.send(()).unwrap();
            assert_eq!(recovery.join().unwrap(), 1);
            child
        });
        let locked = File::open(lock).unwrap().try_lock();
        // SAFETY: ends that child, and waits for it.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        locked.unwrap();
    });
}
