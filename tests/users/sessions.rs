//! sessions.rs: a service that looks users up, counts what they ask for, and never forgets a session.
use std::collections::HashMap;

struct Service {
    sessions: HashMap<u64, Vec<u8>>,
    counts: HashMap<u64, u64>,
}

impl Service {
    #[inline(never)]
    fn answer(&mut self, request: u64) -> usize {
        *self.counts.entry(request % 1000).or_insert(0) += 1;
        let token = self.token(request);
        let words = format!("user {} asks for {}", request % 1000, request);
        self.remember(request, token);
        words.len()
    }

    #[inline(never)]
    fn token(&self, request: u64) -> Vec<u8> {
        request.to_le_bytes().repeat(12)
    }

    #[inline(never)]
    fn remember(&mut self, request: u64, token: Vec<u8>) {
        self.sessions.insert(request, token);
        if MENDED && self.sessions.len() > 1000 {
            self.sessions.clear();
        }
    }
}

const MENDED: bool = option_env!("MENDED").is_some();

fn main() {
    let requests: u64 = 200_000;
    let mut service = Service { sessions: HashMap::new(), counts: HashMap::new() };
    let bytes: usize = (0..requests).map(|request| service.answer(request)).sum();
    println!("{} bytes answered, {} sessions", bytes, service.sessions.len());
    std::process::exit(0);
}
