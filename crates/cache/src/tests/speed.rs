use super::*;
use rustix::time::{ClockId, clock_gettime};
use std::time::Instant;

/// Time this thread has had on a core: what counts where others use the machine, too.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[test]
#[ignore = "a measurement; run it with --release"]
fn speed_of_writing_and_opening() {
    const CHUNKS: u64 = 16 << 10;
    let place = TestFolder::new();
    let mut cache = place.open();
    let mut payload = chunk(1, 64 << 10).1;
    let header = Header::dense("u8", 64, 1 << 10);
    let names = |payload: &mut Vec<u8>, n: u64| {
        payload[..8].copy_from_slice(&n.to_le_bytes());
        ChunkId::of(&header, payload)
    };
    let ids: Vec<_> = (0..CHUNKS).map(|n| names(&mut payload, n)).collect();
    let (start, cpu_start_s) = (Instant::now(), cpu_s());
    for (n, id) in ids.iter().enumerate() {
        payload[..8].copy_from_slice(&(n as u64).to_le_bytes());
        let mut arriving = cache.begin(*id, header.clone()).unwrap();
        cache.write(&mut arriving, &payload).unwrap();
        cache.finish(arriving).unwrap();
    }
    let took = start.elapsed().as_secs_f64();
    let gb_per_s = |took: f64| (1u64 << 30) as f64 / took / 1e9;
    let cpu_took = cpu_s() - cpu_start_s;
    println!("wrote 1 GiB: {:.2} GB/s, of the thread's own time {:.2}", gb_per_s(took), gb_per_s(cpu_took));

    let timed = |what: &str, cache: &mut dyn FnMut() -> Cache| {
        let start = Instant::now();
        let cache = cache();
        println!("{what}: {:.1} ms for {} chunks", start.elapsed().as_secs_f64() * 1e3, cache.index.len());
        cache
    };
    let other = timed("opened beside the writer", &mut || place.open());
    drop((cache, other));
    for pack in place.packs() {
        let file = OwnedFd::from(std::fs::File::options().read(true).write(true).open(&pack).unwrap());
        record::spoil_list(&file, pack.metadata().unwrap().len()).unwrap();
    }
    drop(timed("opened after all writers were killed", &mut || place.open()));
    let mut cache = timed("opened closed packs", &mut || place.open());
    let start = Instant::now();
    let spots: Vec<_> = ids.iter().map(|id| cache.find(id).unwrap()).collect();
    println!("found all: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    let start = Instant::now();
    assert!(ids.iter().zip(&spots).all(|(id, spot)| is_good(&cache, spot, id)));
    let took = start.elapsed().as_secs_f64();
    println!("checked all: {:.2} GB/s", gb_per_s(took));
}
