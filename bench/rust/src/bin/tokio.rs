//! A server and its clients in one runtime with two workers: each request is a line over an in-memory stream, parsed,
//! answered by a task of its own and sent back over a channel, while sessions come and go.

use calm_bench_rust::{checksum, report, rounds, Numbers};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::{mpsc, oneshot, Mutex};

const CLIENTS: u64 = 64;

type Store = Arc<Mutex<HashMap<String, Arc<Vec<u8>>>>>;

enum Job {
    Set(String, Vec<u8>, oneshot::Sender<usize>),
    Get(String, oneshot::Sender<Option<Arc<Vec<u8>>>>),
}

async fn keep(store: Store, mut jobs: mpsc::Receiver<Job>) {
    while let Some(job) = jobs.recv().await {
        let store = store.clone();
        tokio::spawn(async move {
            match job {
                Job::Set(key, value, reply) => {
                    let mut map = store.lock().await;
                    if map.len() > 2000 {
                        map.clear();
                    }
                    let length = value.len();
                    map.insert(key, Arc::new(value));
                    let _ = reply.send(length);
                }
                Job::Get(key, reply) => {
                    let _ = reply.send(store.lock().await.get(&key).cloned());
                }
            }
        });
    }
}

/// Serves one connection: `set KEY VALUE` and `get KEY`, a line each; answers are a line, too.
async fn serve(stream: DuplexStream, jobs: mpsc::Sender<Job>) {
    let (from, mut to) = tokio::io::split(stream);
    let mut lines = BufReader::new(from).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let words: Vec<String> = line.split(' ').map(str::to_string).collect();
        let answer = match words.as_slice() {
            [verb, key, value] if verb == "set" => {
                let (reply, answer) = oneshot::channel();
                let job = Job::Set(key.clone(), value.clone().into_bytes(), reply);
                if jobs.send(job).await.is_err() {
                    return;
                }
                format!("stored {}\n", answer.await.unwrap_or(0))
            }
            [verb, key] if verb == "get" => {
                let (reply, answer) = oneshot::channel();
                if jobs.send(Job::Get(key.clone(), reply)).await.is_err() {
                    return;
                }
                match answer.await {
                    Ok(Some(value)) => format!("found {}\n", value.len()),
                    _ => "nothing\n".to_string(),
                }
            }
            _ => "what?\n".to_string(),
        };
        if to.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// What a client got back, as a sum that does not depend on who was faster: lengths that it stored itself.
async fn ask(seed: u64, requests: u64, jobs: mpsc::Sender<Job>) -> u64 {
    let mut numbers = Numbers::new(seed + 1);
    let mut sum = 0;
    for _ in 0..requests / 50 {
        let (near, far) = tokio::io::duplex(4096);
        let server = tokio::spawn(serve(far, jobs.clone()));
        let (from, mut to) = tokio::io::split(near);
        let mut lines = BufReader::new(from).lines();
        for _ in 0..50 {
            let key = format!("key-{}", numbers.below(3000));
            let is_set = numbers.below(3) == 0;
            let request = if is_set {
                format!("set {key} {}\n", numbers.word(900))
            } else {
                format!("get {key}\n")
            };
            to.write_all(request.as_bytes())
                .await
                .expect("the server listens");
            let answer = lines.next_line().await.expect("an answer").expect("a line");
            if is_set {
                sum = checksum(sum, answer.as_bytes());
            }
        }
        to.shutdown().await.expect("the stream ends");
        let mut rest = Vec::new();
        let _ = lines.into_inner().read_to_end(&mut rest).await;
        server.await.expect("the server ends");
    }
    sum
}

fn main() {
    report("tokio", || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let requests = rounds(60) * 50;
        runtime.block_on(async {
            let (jobs, taken) = mpsc::channel(256);
            let keeper = tokio::spawn(keep(Store::default(), taken));
            let clients: Vec<_> = (0..CLIENTS)
                .map(|seed| tokio::spawn(ask(seed, requests, jobs.clone())))
                .collect();
            drop(jobs);
            let mut sum = 0u64;
            for client in clients {
                sum = sum.wrapping_add(client.await.expect("a client ends"));
            }
            keeper.await.expect("the keeper ends");
            sum
        })
    });
}
