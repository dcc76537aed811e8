//! The plan of a simulated run: the cluster, the rounds, and the faults with their times.
//!
//! A plan is drawn from a seed ([`Plan::draw`]) or written by hand for a scenario. The engine runs both in the same way. What a plan
//! leaves open (jitter, the exact duration of each block) is drawn from the same seed during the run.

use crate::fault::{self, Fault};
use crate::oracle::Mode;
use crate::random::Rng;
use qjam_core::ids::{Block, RoundId};
use qjam_core::reduce::{Cut, Node};
use qjam_core::scheduler::Config;
use qjam_core::time::{Span, Time};
use std::collections::BTreeSet;

/// The description of a simulated run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides what is drawn during the run.
    pub seed: u64,
    /// Deadlines and limits of the scheduler.
    pub config: Config,
    /// How long a worker may keep finished results.
    pub deliver_after: Span,
    /// The seats.
    pub seats: Vec<SeatPlan>,
    /// The rounds, in order.
    pub rounds: Vec<RoundPlan>,
    /// The faults and their times.
    pub faults: Vec<(Time, Fault)>,
    /// Whether messages of a worker that was reported lost still reach the scheduler.
    pub late_messages: bool,
    /// Percentage of results that arrive a second time later.
    pub repeated_percent: u64,
    /// Whether the master's loop learns of deaths while it carries out actions: when it kills a worker, and when it sends to a
    /// dead one.
    pub is_sudden: bool,
    /// Whether the checkers run, and the run continues until all is quiet. Large studies do without: they end with the last
    /// answer, and every round must have a value.
    pub is_watched: bool,
    /// After so many rounds that change states the master has them all, and no round before; 0 if never.
    pub checkpoint_every: u64,
}

/// A seat and its worker.
#[derive(Clone, Debug)]
pub struct SeatPlan {
    /// When the user asks for it.
    pub added: Time,
    /// When the user removes it; after it was added.
    pub removed: Option<Time>,
    /// Whether it is on another host.
    pub remote: bool,
    /// Number of slots.
    pub slots: u32,
    /// Number of slots that the master assumes until the worker reports it, if different.
    pub promised: Option<u32>,
    /// Whether a one-slot worker runs blocks on the thread that reads messages.
    pub inline: bool,
    /// Whether such a worker reads messages on another thread nevertheless.
    pub listens: bool,
    /// Slowdown factor for blocks.
    pub slowness: u64,
    /// An additional factor by round, in thousandths; the last applies to all later rounds, and the default is 1000.
    pub paces: Vec<u64>,
    /// Whether the state machine gets a tick every second.
    pub ticks: bool,
    /// Time from start to the first message.
    pub start: Span,
    /// Latency in one direction.
    pub latency: Span,
    /// Time to put a mebibyte on the link.
    pub per_mib: Span,
    /// Maximum time between adding a value to the tree and telling the state machine, with several slots.
    pub report: Span,
    /// Time to merge two values.
    pub merge: Span,
    /// Time to take subtrees out of the tree.
    pub collect: Span,
    /// Percentage of chunks that a worker has when it starts.
    pub warm_percent: u64,
}

/// The description of a round.
#[derive(Clone, Debug)]
pub struct RoundPlan {
    /// When the user asks for it.
    pub submit: Submit,
    /// The data set; rounds over the same one find its chunks on the workers.
    pub dataset: u32,
    /// Its cut.
    pub cut: Cut,
    /// How blocks are computed.
    pub mode: Mode,
    /// Time for a block.
    pub block: Span,
    /// Random variation of the duration in percent.
    pub spread_percent: u64,
    /// Size of the parameters.
    pub params_bytes: u64,
    /// Size of a partial result.
    pub partial_bytes: u64,
    /// Size of a chunk.
    pub chunk_bytes: u64,
    /// Blocks that end the process they run in.
    pub poison: BTreeSet<Block>,
    /// Blocks whose function panics.
    pub panics: BTreeSet<Block>,
    /// A node whose two halves cannot be merged.
    pub bad_merge: Option<Node>,
    /// Whether no worker can read the parameters.
    pub bad_params: bool,
    /// When the user cancels it.
    pub cancel: Option<Cancel>,
    /// Maximum number of slots that take part, if not all.
    pub slots_max: Option<u32>,
    /// Number of first blocks that the master has run itself.
    pub ready: u32,
    /// Whether it changes states, which are the same for all such rounds of a plan.
    pub is_held: bool,
    /// Whether its partitions write to each other; only if it changes states.
    pub has_mail: bool,
}

/// When a round is submitted.
#[derive(Clone, Copy, Debug)]
pub enum Submit {
    /// At this moment.
    At(Time),
    /// This long after the previous round was answered.
    AfterPrevious(Span),
}

/// When a round is cancelled.
#[derive(Clone, Copy, Debug)]
pub enum Cancel {
    /// This long after its submission.
    After(Span),
    /// When this many of its blocks have been accepted.
    AtBlock(u32),
}

impl Default for SeatPlan {
    /// A process on this machine.
    fn default() -> Self {
        SeatPlan {
            added: Time(0),
            removed: None,
            remote: false,
            slots: 1,
            promised: None,
            inline: true,
            listens: true,
            slowness: 1,
            paces: Vec::new(),
            ticks: false,
            start: Span::from_ms(5),
            latency: Span(30),
            per_mib: Span(100),
            report: Span(0),
            merge: Span(1),
            collect: Span(1),
            warm_percent: 100,
        }
    }
}

impl SeatPlan {
    /// The duration of a block on this seat, from its nominal duration.
    pub fn pace(&self, round: RoundId, span: Span) -> Span {
        let at = (round.0 as usize).saturating_sub(1);
        let pace = self.paces.get(at).or(self.paces.last()).copied().unwrap_or(1000);
        Span(span.0 * self.slowness * pace / 1000)
    }
}

impl RoundPlan {
    /// A round without faults, submitted at time zero.
    pub fn new(chunks: u32, level: u8, block: Span) -> Self {
        RoundPlan {
            submit: Submit::At(Time(0)),
            dataset: 0,
            cut: Cut::new(chunks, level),
            mode: Mode::Map,
            block,
            spread_percent: 50,
            params_bytes: 64,
            partial_bytes: 64,
            chunk_bytes: 1 << 16,
            poison: BTreeSet::new(),
            panics: BTreeSet::new(),
            bad_merge: None,
            bad_params: false,
            cancel: None,
            slots_max: None,
            ready: 0,
            is_held: false,
            has_mail: false,
        }
    }

    /// Whether this round cannot have a value.
    pub fn is_doomed(&self) -> bool {
        !self.poison.is_empty() || !self.panics.is_empty() || self.bad_merge.is_some() || self.bad_params
    }
}

impl Plan {
    /// A cluster of equal seats without faults.
    pub fn calm(seats: u32) -> Self {
        Plan {
            seed: 0,
            config: Config::default(),
            deliver_after: Span::from_ms(200),
            seats: vec![SeatPlan::default(); seats as usize],
            rounds: Vec::new(),
            faults: Vec::new(),
            late_messages: false,
            repeated_percent: 0,
            is_sudden: false,
            is_watched: true,
            checkpoint_every: 0,
        }
    }

    /// Draws everything from a seed.
    pub fn draw(seed: u64, workers_max: u32) -> Self {
        let rng = Rng::new(seed);
        let mut cluster = rng.fork(1);
        let mut seats = draw_seats(&mut cluster, workers_max);
        let config = draw_config(&mut cluster);
        let deliver_after = Span(cluster.magnitude(1_000, 2_000_000));
        // In one run of six, workers become silent during long rounds and return at about the time they are suspected.
        let silence = cluster.percent(16) && seats.len() <= 64;
        // In one of twenty, all workers die and none can be started for a while.
        let desertion = !silence && cluster.percent(5);
        if desertion || silence && cluster.percent(70) {
            seats.truncate(cluster.between(1 + u64::from(silence), 4) as usize);
        }
        if silence && cluster.percent(50) {
            // Slots that are slow to report the end of a block.
            for seat in &mut seats {
                (seat.inline, seat.latency) = (false, Span(cluster.magnitude(15, 1_000)));
                seat.report = Span(cluster.magnitude(1_000, 500_000));
            }
        }
        let rounds = draw_rounds(&mut rng.fork(2), &seats, silence);
        let mut transport = rng.fork(3);
        let late_messages = transport.percent(30);
        let repeated_percent = if transport.percent(30) { transport.between(1, 50) } else { 0 };
        let mut plan = Plan {
            seed,
            config,
            deliver_after,
            seats,
            rounds,
            faults: Vec::new(),
            late_messages,
            repeated_percent,
            is_sudden: transport.percent(50),
            is_watched: true,
            checkpoint_every: 0,
        };
        let faults = &mut rng.fork(4);
        plan.faults = match (silence, desertion) {
            (true, _) => fault::draw_silence(faults, &plan.targets()),
            (_, true) => fault::draw_desertion(faults, &plan.targets()),
            _ => fault::draw(faults, &plan.targets()),
        };
        // In one of three, some or all seats are on other hosts, which can become unreachable.
        let mut hosts = rng.fork(5);
        if hosts.percent(33) {
            draw_hosts(&mut hosts, &mut plan.seats);
            let outages = fault::draw_outages(&mut hosts, &plan.targets());
            plan.faults.extend(outages);
            plan.faults.sort_by_key(|(at, _)| *at);
        }
        let mut removals = rng.fork(6);
        if removals.percent(15) {
            draw_removals(&mut removals, &mut plan);
        }
        draw_paces(&mut rng.fork(7), &mut plan);
        draw_teams(&mut rng.fork(8), &mut plan);
        draw_states(&mut rng.fork(9), &mut plan);
        plan
    }

    /// When the last fault has ended. Except for poison, panics and permanent faults, everything works after that.
    pub fn faults_end(&self) -> Time {
        self.faults.iter().map(|(at, fault)| fault.end(*at)).max().unwrap_or_default()
    }

    /// Slots of all seats.
    pub fn slots(&self) -> u64 {
        self.seats.iter().map(|s| u64::from(s.slots)).sum()
    }

    /// What faults can affect.
    fn targets(&self) -> fault::Targets {
        let seats = (0..).zip(&self.seats);
        fault::Targets {
            seats: self.seats.len() as u32,
            remote: seats.filter(|(_, seat)| seat.remote).map(|(n, _)| n).collect(),
            calm: self.calm_span(),
        }
    }

    /// The approximate duration without faults.
    pub fn calm_span(&self) -> Span {
        let seat = &self.seats[0];
        let work: u64 = self.rounds.iter().map(|r| r.block.0 * u64::from(r.cut.blocks())).sum();
        let trips = 4 * self.rounds.len() as u64 * (seat.latency.0 + seat.per_mib.0);
        Span(seat.start.0 + work / self.slots() + trips + 100)
    }
}

fn draw_seats(rng: &mut Rng, workers_max: u32) -> Vec<SeatPlan> {
    let most = u64::from(workers_max.max(1));
    let n = match rng.below(1000) {
        0 => rng.between(most.min(500), most),
        1..60 => rng.between(most.min(13), most.min(64)),
        _ => rng.between(1, most.min(12)),
    };
    let slots_max = if rng.percent(50) { 1 } else { rng.between(1, 6) };
    // Usually all seats are alike; sometimes each differs.
    let alike = rng.percent(70);
    let late_percent = if rng.percent(10) { rng.between(1, 100) } else { 0 };
    let first = draw_seat(rng);
    (0..n)
        .map(|_| {
            let seat = if alike { first.clone() } else { draw_seat(rng) };
            let slots = rng.between(1, slots_max) as u32;
            let added = Time(if rng.percent(late_percent) { rng.magnitude(1, 10_000_000) } else { 0 });
            SeatPlan { added, slots, inline: slots == 1 && seat.inline, ..seat }
        })
        .collect()
}

fn draw_seat(rng: &mut Rng) -> SeatPlan {
    let slow_threads = rng.percent(20);
    SeatPlan {
        added: Time(0),
        removed: None,
        remote: false,
        slots: 1,
        promised: None,
        inline: rng.percent(80),
        listens: true,
        slowness: 1,
        paces: Vec::new(),
        ticks: rng.percent(50),
        start: Span(rng.magnitude(500, 2_000_000)),
        latency: Span(rng.magnitude(15, 30_000)),
        per_mib: Span(rng.magnitude(100, 100_000)),
        report: Span(if slow_threads { rng.magnitude(100, 20_000) } else { rng.below(30) }),
        merge: Span(if slow_threads { rng.magnitude(1, 5_000) } else { 0 }),
        collect: Span(rng.below(50)),
        warm_percent: *rng.pick(&[0, 50, 90, 100, 100, 100]),
    }
}

fn draw_hosts(rng: &mut Rng, seats: &mut [SeatPlan]) {
    let remote_percent = if rng.percent(50) { 100 } else { rng.between(1, 99) };
    let surprise_percent = if rng.percent(50) { rng.between(1, 100) } else { 0 };
    for seat in seats {
        seat.remote = rng.percent(remote_percent);
        if seat.remote && rng.percent(surprise_percent) {
            seat.promised = Some(rng.between(1, 6) as u32);
        }
    }
}

/// Removes some seats during the run, rarely all of them.
fn draw_removals(rng: &mut Rng, plan: &mut Plan) {
    let percent = if rng.percent(20) { 100 } else { rng.between(1, 60) };
    let within_us = plan.calm_span().0 * 3 / 2;
    for seat in &mut plan.seats {
        if rng.percent(percent) {
            seat.removed = Some(seat.added + Span(1 + rng.below(within_us)));
        }
    }
}

/// In two runs of five some workers are slower than others; thresholds for help vary.
fn draw_paces(rng: &mut Rng, plan: &mut Plan) {
    let slow_percent = if rng.percent(40) { rng.between(5, 50) } else { 0 };
    let deaf_percent = *rng.pick(&[0, 0, 0, 30, 100]);
    for seat in &mut plan.seats {
        seat.slowness = if rng.percent(slow_percent) { rng.between(2, 20) } else { 1 };
        seat.listens = !rng.percent(deaf_percent);
    }
    if rng.percent(50) {
        plan.config.steal_min = Span(rng.magnitude(50, 50_000));
        plan.config.remote_steal_min = Span(rng.magnitude(50, 500_000));
    }
    plan.config.balances = !rng.percent(4);
    if rng.percent(30) {
        plan.config.spare_within = Span(rng.magnitude(100_000, 60_000_000));
    }
}

/// In a third of all runs, some rounds use only some of the workers, and of some the master has run the first blocks.
fn draw_teams(rng: &mut Rng, plan: &mut Plan) {
    if !rng.percent(33) {
        return;
    }
    let slots = plan.slots();
    for round in &mut plan.rounds {
        if rng.percent(60) {
            round.slots_max = Some(rng.between(1, slots) as u32);
        }
        let blocks = u64::from(round.cut.blocks());
        if blocks > 1 && rng.percent(40) && !round.is_doomed() {
            round.ready = rng.between(1, blocks - 1) as u32;
        }
    }
}

/// In one run of three, most rounds are over states: one after the other, over the same data.
fn draw_states(rng: &mut Rng, plan: &mut Plan) {
    if !rng.percent(33) {
        return;
    }
    let cut = Cut::new(plan.rounds[0].cut.chunks.min(200), 0);
    if rng.percent(50) {
        let last = plan.rounds[0].clone();
        plan.rounds.extend((0..rng.below(6)).map(|_| last.clone()));
    }
    for (n, round) in plan.rounds.iter_mut().enumerate() {
        if n > 0 {
            round.submit = Submit::AfterPrevious(Span(rng.magnitude(1, 1_000_000)));
        }
        if !rng.percent(85) {
            continue;
        }
        // With states, a block is a single chunk.
        round.block = Span(round.block.0 >> round.cut.level | 1);
        (round.is_held, round.mode, round.dataset, round.cut) = (true, Mode::Map, 7, cut);
        (round.slots_max, round.ready, round.bad_merge) = (None, 0, None);
        round.poison.retain(|block| *block < cut.blocks());
        round.panics.retain(|block| *block < cut.blocks());
    }
    if rng.percent(50) {
        plan.config.home_patience = Span(rng.magnitude(1_000, 20_000_000));
    }
    draw_mail(&mut Rng::new(plan.seed).fork(71), plan);
}

/// In two of three runs over states, partitions write to each other in most rounds.
fn draw_mail(rng: &mut Rng, plan: &mut Plan) {
    if rng.percent(66) {
        for round in plan.rounds.iter_mut().filter(|round| round.is_held) {
            round.has_mail = rng.percent(80);
        }
        plan.checkpoint_every = rng.below(4);
    }
}

fn draw_config(rng: &mut Rng) -> Config {
    let usual = Config::default();
    if rng.percent(75) {
        return usual;
    }
    let drawn = Config {
        let_go_within: Span(rng.magnitude(50_000, 5_000_000)),
        start_within: Span(rng.magnitude(5_000_000, 30_000_000)),
        restart_after: Span(rng.magnitude(1_000, 500_000)),
        kills_max: rng.between(1, 4) as u32,
        fruitless_max: rng.between(1, 8) as u32,
        remote_let_go_within: Span(rng.magnitude(100_000, 10_000_000)),
        remote_restart_after: Span(rng.magnitude(10_000, 5_000_000)),
        remote_restart_max: Span(rng.between(5_000_000, 30_000_000)),
        remote_patience: Span(rng.between(1_000_000, 90_000_000)),
        ..usual
    };
    let vain_patience = Span(drawn.remote_patience.0 / 4);
    Config { vain_max: drawn.fruitless_max / 3, vain_patience, vain_life: Span(vain_patience.0 * 2), ..drawn }
}

fn draw_rounds(rng: &mut Rng, seats: &[SeatPlan], silence: bool) -> Vec<RoundPlan> {
    let many = seats.len() > 64;
    let n = if many { rng.between(1, 2) } else { rng.between(1, 6) };
    let sets: Vec<u32> = (0..rng.between(1, 2))
        .map(|_| match many {
            true => rng.between(1, 3 * seats.len() as u64) as u32,
            false => rng.magnitude(1, 400) as u32,
        })
        .collect();
    let slots: u64 = seats.iter().map(|s| u64::from(s.slots)).sum();
    let trouble = rng.percent(40);
    let mut at = Time(rng.below(2) * rng.magnitude(1, 3_000_000));
    (0..n)
        .map(|_| {
            let dataset = rng.below(sets.len() as u64) as u32;
            let cut = Cut::new(sets[dataset as usize], *rng.pick(&[0, 0, 0, 1, 1, 2, 3, 4]));
            // Long blocks only if there are few per slot, so that a run does not last for hours.
            let longest = (60_000_000 * slots / u64::from(cut.blocks())).clamp(1_000, 20_000_000);
            let shortest = if rng.percent(50) { 30 } else { longest / 100 };
            let mut round =
                RoundPlan::new(cut.chunks, cut.level, Span(rng.magnitude(shortest.max(1), longest)));
            if silence {
                round.block = Span(slots * rng.between(2_000_000, 20_000_000) / u64::from(cut.blocks()) + 1);
            }
            round.dataset = dataset;
            round.mode = *rng.pick(&[Mode::Map, Mode::Fold]);
            round.params_bytes = rng.magnitude(8, 1 << 20);
            round.partial_bytes = rng.magnitude(8, 1 << 20);
            round.chunk_bytes = rng.magnitude(64, 1 << 16);
            round.submit = match rng.below(3) {
                0 => Submit::AfterPrevious(Span(rng.magnitude(1, 1_000_000))),
                _ => Submit::At(at),
            };
            at = at + Span(rng.magnitude(1, 5_000_000));
            if trouble {
                draw_trouble(rng, &mut round);
            }
            if rng.percent(15) {
                round.cancel = Some(match rng.percent(50) {
                    true => Cancel::AtBlock(rng.between(1, u64::from(cut.blocks())) as u32),
                    false => Cancel::After(Span(rng.magnitude(1, 20_000_000))),
                });
            }
            round
        })
        .collect()
}

fn draw_trouble(rng: &mut Rng, round: &mut RoundPlan) {
    let cut = round.cut;
    let any_block = |rng: &mut Rng| rng.below(u64::from(cut.blocks())) as u32;
    match rng.below(10) {
        0..3 => {
            round.poison = match rng.below(20) {
                0 => (0..cut.blocks()).collect(),
                1..5 => (0..rng.between(2, 4)).map(|_| any_block(rng)).collect(),
                _ => [any_block(rng)].into(),
            };
        }
        3 | 4 => round.panics = (0..rng.between(1, 2)).map(|_| any_block(rng)).collect(),
        5 if cut.blocks() > 1 => {
            // The lowest common node of two neighbours, where both halves have chunks.
            let left = rng.below(u64::from(cut.blocks()) - 1) as u32;
            let mut pair = (cut.node(left), cut.node(left + 1));
            while pair.0 != pair.1 {
                pair = (pair.0.parent(), pair.1.parent());
            }
            round.bad_merge = Some(pair.0);
        }
        6 => round.bad_params = rng.percent(50),
        _ => {}
    }
}
