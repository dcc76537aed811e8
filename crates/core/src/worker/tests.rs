use super::*;
use crate::lease;
use crate::reduce::Tree;

const ROUND: RoundId = RoundId(1);

fn range(first: u32, len: u32, attempt: u32) -> lease::BlockRange {
    lease::BlockRange { first, len, attempt, alone: false, apart: false }
}

fn task(cut: Cut, ranges: Vec<lease::BlockRange>) -> Event {
    Event::TaskReceived { round: ROUND, cut, ranges, missing: vec![], behind: vec![] }
}

/// A body that does at once whatever the machine wants, and notes it.
fn drive(worker: &mut Worker, cut: Cut, event: Event) -> Vec<String> {
    let mut log = Vec::new();
    let mut tree = Tree::new(cut);
    let mut todo = vec![event];
    while !todo.is_empty() {
        let mut actions = Vec::new();
        worker.handle(Time(0), todo.remove(0), &mut actions);
        for action in actions {
            match action {
                Action::Run { round, block, .. } => {
                    log.push(format!("run {block}"));
                    tree.insert(cut.node(block), (), |_, ()| Ok::<_, ()>(())).unwrap();
                    todo.push(Event::BlockFinished { round, block });
                }
                Action::Collect { round } => {
                    let nodes = tree.take().into_iter().map(|(node, ())| node).collect();
                    todo.push(Event::Collected { round, nodes });
                }
                Action::Send { parts, .. } => {
                    for part in parts {
                        log.push(format!("send {:?}", cut.blocks_of(part.node)));
                    }
                }
                Action::SetApart { block, .. } => {
                    log.push(format!("apart {block}"));
                    tree.set_apart(cut.node(block));
                }
                Action::Return { returned, .. } => log.push(format!("return {returned:?}")),
                Action::Forget { .. } => log.push("forget".into()),
                Action::LetGo { .. } => log.push("let go".into()),
                Action::Protest { why } => log.push(why),
            }
        }
    }
    log
}

#[test]
fn blocks_run_in_order_and_go_out_as_few_roots() {
    let cut = Cut::new(8, 0);
    let mut worker = Worker::new(1, Span::from_ms(1000));
    let log = drive(&mut worker, cut, task(cut, vec![range(2, 5, 1)]));
    assert_eq!(
        log,
        ["run 2", "run 3", "run 4", "run 5", "run 6", "send 2..4", "send 4..6", "send 6..7", "forget"]
    );
}

#[test]
fn a_block_without_its_chunk_waits_and_the_others_go_on() {
    let cut = Cut::new(4, 0);
    let mut worker = Worker::new(1, Span::from_ms(1000));
    let event = Event::TaskReceived {
        round: ROUND,
        cut,
        ranges: vec![range(0, 3, 1)],
        missing: vec![0],
        behind: vec![],
    };
    assert_eq!(drive(&mut worker, cut, event), ["run 1", "run 2"]);
    let mut actions = Vec::new();
    worker.handle(Time(1), Event::ChunksArrived { round: ROUND, chunks: vec![0] }, &mut actions);
    assert_eq!(actions, [Action::Run { round: ROUND, block: 0, attempt: 1 }]);
}

#[test]
fn a_risky_block_runs_after_everything_else_was_sent() {
    let cut = Cut::new(4, 0);
    let mut worker = Worker::new(2, Span::from_ms(1000));
    let risky = lease::BlockRange { alone: true, ..range(1, 1, 2) };
    let log = drive(&mut worker, cut, task(cut, vec![range(0, 1, 1), risky, range(2, 2, 1)]));
    assert_eq!(log, ["run 0", "run 2", "run 3", "send 0..1", "send 2..4", "run 1", "send 1..2", "forget"]);
}

#[test]
fn finished_work_goes_out_after_a_while_though_there_is_more_to_do() {
    let cut = Cut::new(4, 0);
    let mut worker = Worker::new(1, Span(100));
    let mut out = Vec::new();
    worker.handle(Time(0), task(cut, vec![range(0, 4, 1)]), &mut out);
    worker.handle(Time(50), Event::BlockFinished { round: ROUND, block: 0 }, &mut out);
    worker.handle(Time(120), Event::BlockFinished { round: ROUND, block: 1 }, &mut out);
    assert!(!out.contains(&Action::Collect { round: ROUND }), "{out:?}");
    worker.handle(Time(160), Event::BlockFinished { round: ROUND, block: 2 }, &mut out);
    assert_eq!(out.last(), Some(&Action::Collect { round: ROUND }));
}

#[test]
fn a_cancelled_round_is_let_go_when_its_running_block_ends() {
    let cut = Cut::new(4, 0);
    let mut worker = Worker::new(1, Span(100));
    let mut out = Vec::new();
    worker.handle(Time(0), task(cut, vec![range(0, 4, 1)]), &mut out);
    worker.handle(Time(1), Event::CancelReceived { round: ROUND }, &mut out);
    assert_eq!(out.len(), 1, "block 0 is still running: {out:?}");
    worker.handle(Time(2), Event::BlockFinished { round: ROUND, block: 0 }, &mut out);
    assert_eq!(out[1..], [Action::Forget { round: ROUND }, Action::LetGo { round: ROUND }]);
    assert!(!worker.is_busy());
}

#[test]
fn a_failed_round_waits_for_the_masters_word() {
    let cut = Cut::new(4, 0);
    let mut worker = Worker::new(1, Span(100));
    let mut out = Vec::new();
    worker.handle(Time(0), task(cut, vec![range(0, 4, 1)]), &mut out);
    worker.handle(Time(1), Event::BlockFailed { round: ROUND, block: 0 }, &mut out);
    assert_eq!(out.len(), 1, "nothing more is run: {out:?}");
    worker.handle(Time(2), Event::CancelReceived { round: ROUND }, &mut out);
    assert_eq!(out[1..], [Action::Forget { round: ROUND }, Action::LetGo { round: ROUND }]);
}

#[test]
fn a_block_that_ends_in_a_round_already_stopped_leaves_no_trace() {
    let cut = Cut::new(4, 0);
    let mut worker = Worker::new(2, Span(100));
    let mut out = Vec::new();
    worker.handle(Time(0), task(cut, vec![range(0, 4, 1)]), &mut out);
    worker.handle(Time(1), Event::CancelReceived { round: ROUND }, &mut out);
    worker.handle(Time(2), Event::BlockFinished { round: ROUND, block: 1 }, &mut out);
    invariants::check(&worker);
    assert_eq!(out.len(), 2, "block 0 is still running: {out:?}");
    worker.handle(Time(3), Event::BlockFinished { round: ROUND, block: 0 }, &mut out);
    assert_eq!(out[2..], [Action::Forget { round: ROUND }, Action::LetGo { round: ROUND }]);
}

#[test]
fn a_block_can_come_back_before_the_end_of_its_first_run_was_reported() {
    let cut = Cut::new(4, 0);
    let node = |index| Node { level: 0, index };
    let mut worker = Worker::new(2, Span(100));
    let mut out = Vec::new();
    worker.handle(Time(0), task(cut, vec![range(0, 3, 1)]), &mut out);
    // Both are in the tree, but only one slot has said so when it is time to deliver.
    worker.handle(Time(200), Event::BlockFinished { round: ROUND, block: 0 }, &mut out);
    worker.handle(Time(300), Event::Ticked, &mut out);
    let nodes = vec![node(0), node(1)];
    worker.handle(Time(301), Event::Collected { round: ROUND, nodes }, &mut out);
    // The result was overtaken: block 1 is given out again.
    out.clear();
    worker.handle(Time(302), task(cut, vec![range(1, 1, 3)]), &mut out);
    assert_eq!(out, [], "its slot is still taken");
    worker.handle(Time(303), Event::BlockFinished { round: ROUND, block: 1 }, &mut out);
    assert_eq!(out, [Action::Run { round: ROUND, block: 1, attempt: 3 }]);
}

#[test]
fn a_risky_block_that_comes_first_runs_first_where_nothing_is_at_stake() {
    let cut = Cut::new(4, 0);
    let mut worker = Worker::new(2, Span::from_ms(1000));
    let risky = lease::BlockRange { alone: true, ..range(2, 1, 2) };
    let log = drive(&mut worker, cut, task(cut, vec![risky, range(0, 2, 1)]));
    assert_eq!(log, ["run 2", "run 0", "run 1", "send 0..2", "send 2..3", "forget"]);
}

#[test]
fn a_risky_block_waits_until_no_round_has_anything_at_stake() {
    let cut = Cut::new(4, 0);
    let other = RoundId(2);
    let mut worker = Worker::new(2, Span(1_000));
    let mut out = Vec::new();
    let ranges = vec![range(0, 2, 1)];
    worker.handle(
        Time(0),
        Event::TaskReceived { round: other, cut, ranges, missing: vec![], behind: vec![] },
        &mut out,
    );
    let risky = lease::BlockRange { alone: true, ..range(3, 1, 2) };
    worker.handle(Time(1), task(cut, vec![risky]), &mut out);
    let ranges = vec![range(2, 1, 1)];
    worker.handle(
        Time(2),
        Event::TaskReceived { round: other, cut, ranges, missing: vec![], behind: vec![] },
        &mut out,
    );
    out.clear();
    worker.handle(Time(3), Event::BlockFinished { round: other, block: 0 }, &mut out);
    assert_eq!(out, [], "the later round begins nothing new");
    worker.handle(Time(4), Event::BlockFinished { round: other, block: 1 }, &mut out);
    assert_eq!(out, [Action::Collect { round: other }], "what is finished goes out first");
    let nodes = vec![Node { level: 1, index: 0 }];
    worker.handle(Time(5), Event::Collected { round: other, nodes }, &mut out);
    assert_eq!(out.last(), Some(&Action::Run { round: ROUND, block: 3, attempt: 2 }));
    assert_eq!(out.len(), 3, "and nothing beside it: {out:?}");
}

#[test]
fn what_is_not_started_is_given_back_from_the_end_and_never_run() {
    let cut = Cut::new(32, 0);
    let mut worker = Worker::new(2, Span::from_ms(1000));
    let mut out = Vec::new();
    worker.handle(Time(0), task(cut, vec![range(0, 8, 1)]), &mut out);
    worker.handle(Time(40), Event::BlockFinished { round: ROUND, block: 0 }, &mut out);
    out.clear();
    worker.handle(Time(50), Event::RecallReceived { round: ROUND, blocks: 3 }, &mut out);
    let returned =
        lease::Returned { ranges: vec![range(5, 3, 1)], unstarted: 2, running: vec![(1, 50), (2, 10)] };
    assert_eq!(out, [Action::Return { round: ROUND, returned }]);
    out.clear();
    worker.handle(Time(60), Event::RecallReceived { round: ROUND, blocks: 99 }, &mut out);
    let returned =
        lease::Returned { ranges: vec![range(3, 2, 1)], unstarted: 0, running: vec![(1, 60), (2, 20)] };
    assert_eq!(out, [Action::Return { round: ROUND, returned }]);
    out.clear();
    for block in [1, 2] {
        worker.handle(Time(70), Event::BlockFinished { round: ROUND, block }, &mut out);
    }
    assert_eq!(out, [Action::Collect { round: ROUND }], "nothing of what was given back is run");
}

#[test]
fn who_gives_everything_back_forgets_the_round_and_who_has_nothing_says_so() {
    let cut = Cut::new(8, 0);
    let mut worker = Worker::new(1, Span::from_ms(1000));
    let event = Event::TaskReceived {
        round: ROUND,
        cut,
        ranges: vec![range(0, 4, 1)],
        missing: vec![0, 1, 2, 3],
        behind: vec![],
    };
    let mut out = Vec::new();
    worker.handle(Time(0), event, &mut out);
    worker.handle(Time(1), Event::RecallReceived { round: ROUND, blocks: 4 }, &mut out);
    let returned = lease::Returned { ranges: vec![range(0, 4, 1)], unstarted: 0, running: vec![] };
    assert_eq!(out, [Action::Return { round: ROUND, returned }, Action::Forget { round: ROUND }]);
    out.clear();
    worker.handle(Time(2), Event::RecallReceived { round: ROUND, blocks: 4 }, &mut out);
    assert_eq!(out, [Action::Return { round: ROUND, returned: lease::Returned::default() }]);
}

#[test]
fn a_block_that_killed_is_not_given_back() {
    let cut = Cut::new(8, 0);
    let mut worker = Worker::new(1, Span::from_ms(1000));
    let mut out = Vec::new();
    let risky = lease::BlockRange { alone: true, ..range(3, 1, 2) };
    worker.handle(Time(0), task(cut, vec![range(0, 3, 1), risky]), &mut out);
    out.clear();
    worker.handle(Time(1), Event::RecallReceived { round: ROUND, blocks: 9 }, &mut out);
    let returned = lease::Returned { ranges: vec![range(1, 2, 1)], unstarted: 0, running: vec![(0, 1)] };
    assert_eq!(out, [Action::Return { round: ROUND, returned }]);
}

#[test]
fn finished_work_does_not_wait_for_a_block_that_somebody_else_has_too() {
    let cut = Cut::new(4, 0);
    let mut worker = Worker::new(1, Span::from_ms(1000));
    let mut out = Vec::new();
    worker.handle(Time(0), task(cut, vec![range(0, 2, 1)]), &mut out);
    worker.handle(Time(1), Event::BlockFinished { round: ROUND, block: 0 }, &mut out);
    out.clear();
    worker.handle(Time(2), Event::ApartReceived { round: ROUND, block: 1 }, &mut out);
    assert_eq!(out, [Action::SetApart { round: ROUND, block: 1 }, Action::Collect { round: ROUND }]);
    worker.handle(Time(3), Event::Collected { round: ROUND, nodes: vec![cut.node(0)] }, &mut out);
    worker.handle(Time(9), Event::BlockFinished { round: ROUND, block: 1 }, &mut out);
    assert_eq!(out.last(), Some(&Action::Collect { round: ROUND }));
    out.clear();
    worker.handle(Time(9), Event::ApartReceived { round: ROUND, block: 3 }, &mut out);
    assert_eq!(out, [], "that one is not here");
}

#[test]
fn the_copy_of_a_late_block_is_sent_by_itself() {
    let cut = Cut::new(4, 0);
    let mut worker = Worker::new(1, Span::from_ms(1000));
    let copy = lease::BlockRange { apart: true, ..range(1, 1, 2) };
    let log = drive(&mut worker, cut, task(cut, vec![range(0, 1, 1), copy, range(2, 2, 1)]));
    assert_eq!(
        log,
        ["apart 1", "run 0", "run 1", "run 2", "run 3", "send 0..1", "send 1..2", "send 2..4", "forget"]
    );
}

#[test]
fn impossible_tasks_are_protested() {
    let cut = Cut::new(4, 0);
    for ranges in [vec![range(3, 2, 1)], vec![range(0, 2, 1), range(1, 1, 1)], vec![range(1, u32::MAX, 1)]] {
        let mut worker = Worker::new(1, Span(100));
        let mut out = Vec::new();
        worker.handle(Time(0), task(cut, ranges), &mut out);
        assert!(matches!(out[0], Action::Protest { .. }), "{out:?}");
    }
}
