//! An HTTP proxy that notes what it is asked for: CONNECT tunnels, and requests with whole addresses.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A proxy on a port of its own. Its threads end with the process.
pub struct Proxy {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self {
            address: listener.local_addr().unwrap(),
            heads: Arc::default(),
        };
        let heads = Arc::clone(&proxy.heads);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let heads = Arc::clone(&heads);
                std::thread::spawn(move || serve(&client, &heads));
            }
        });
        proxy
    }

    /// Its address, as a variable has it.
    pub fn url(&self, credentials: &str) -> String {
        format!("http://{credentials}{}", self.address)
    }

    /// The first line and the headers of each connection's first request.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

fn serve(client: &TcpStream, heads: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    heads.lock().unwrap().push(head.clone());
    let target = head.split(' ').nth(1).unwrap_or_default();
    let is_tunnel = head.starts_with("CONNECT ");
    let authority = target.trim_start_matches("http://").split('/').next();
    let server = TcpStream::connect(authority.unwrap_or_default())?;
    match is_tunnel {
        true => (&mut &*client).write_all(b"HTTP/1.1 200 OK\r\n\r\n")?,
        // Servers accept whole addresses too.
        false => (&mut &server).write_all(head.as_bytes())?,
    }
    std::thread::scope(|scope| {
        scope.spawn(|| pipe(reader, &server));
        pipe(&server, client);
    });
    Ok(())
}

fn pipe(mut from: impl Read, mut to: &TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
}
