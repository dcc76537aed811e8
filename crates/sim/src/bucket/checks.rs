//! What must hold of every job in a bucket, one function for each property.
//!
//! Each is named after its property, and a violation has that name. They see requests, blobs and messages only, and nothing of what
//! the protocol keeps in memory.

use crate::checkers::{Verdict, promise};
use crate::oracle::Value;
use qjam_core::bucket::Plan;
use qjam_core::reduce::Node;
use qjam_core::time::Span;

/// A name has one content for ever, whoever writes it and however often.
pub(super) fn name_has_one_content(key: &str, old: &[u8], new: &[u8]) -> Verdict {
    promise!(
        old == new,
        "name_has_one_content",
        "{key} had {} bytes and has {} others",
        old.len(),
        new.len()
    );
    Ok(())
}

/// All copies of an order are the same order.
pub(super) fn copies_are_equal(key: &str, other: &[u8], new: &[u8]) -> Verdict {
    promise!(other == new, "copies_are_equal", "{key} differs from another copy of the same order");
    Ok(())
}

/// A task is acknowledged only when its result has been written, or its round is over.
pub(super) fn no_result_is_lost(message: &str, has_result: bool, is_over: bool) -> Verdict {
    promise!(has_result || is_over, "no_result_is_lost", "`{message}` was acknowledged, and has no result");
    Ok(())
}

/// Nobody begins a backup of a task whose result could be seen for longer than two requests take.
pub(super) fn backups_are_of_unfinished_tasks(key: &str, seen_for: Option<Span>, limit: Span) -> Verdict {
    promise!(
        seen_for.is_none_or(|seen_for| seen_for <= limit),
        "backups_are_of_unfinished_tasks",
        "{key} was claimed {} after the result could be seen",
        seen_for.unwrap_or_default()
    );
    Ok(())
}

/// A merge has every result of its group, once each and in order.
pub(super) fn merges_have_every_result_once(plan: &Plan, parts: &[Node]) -> Verdict {
    let first = parts.first().copied();
    let stage =
        (0..plan.last()).find(|stage| Some(plan.node(*stage, 0).level) == first.map(|node| node.level));
    let expected: Vec<Node> = match (stage, first) {
        (Some(stage), Some(first)) => {
            let group = plan.group_of(stage, first.index);
            plan.members(stage + 1, group).map(|member| plan.node(stage, member)).collect()
        }
        _ => Vec::new(),
    };
    promise!(
        !expected.is_empty() && expected == parts,
        "merges_have_every_result_once",
        "a merge has {parts:?}, its group {expected:?}"
    );
    Ok(())
}

/// A round has the value that one process would compute.
pub(super) fn no_value_is_wrong(round: u64, value: &Value, expected: &Value) -> Verdict {
    promise!(
        value.is_same(expected),
        "no_value_is_wrong",
        "round {round} has {value:?}, and should have {expected:?}"
    );
    Ok(())
}

/// Once the faults have stopped, a job ends.
pub(super) fn jobs_end(now: Span, limit: Span) -> Verdict {
    promise!(now <= limit, "jobs_end", "the job has not ended after {now}");
    Ok(())
}

/// A message for a task is delivered at most once more often than workers are given to end on it.
pub(super) fn deliveries_are_bounded(message: &str, count: u32, limit: u32) -> Verdict {
    promise!(count <= limit, "deliveries_are_bounded", "`{message}` was delivered {count} times");
    Ok(())
}

/// A task that ends its workers ends only so many of them.
pub(super) fn poison_is_set_aside(deaths: u64, limit: u64) -> Verdict {
    promise!(deaths <= limit, "poison_is_set_aside", "a task has ended {deaths} workers");
    Ok(())
}

/// Where nothing goes wrong, every task is run once and every group merged once.
pub(super) fn nothing_is_done_twice(what: &str, done: u64, needed: u64) -> Verdict {
    promise!(done == needed, "nothing_is_done_twice", "{done} {what} for {needed} that are needed");
    Ok(())
}

/// A worker that finds nothing asks seldom.
pub(super) fn idle_requests_are_bounded(empty: u64, limit: u64) -> Verdict {
    promise!(
        empty <= limit,
        "idle_requests_are_bounded",
        "idle workers asked {empty} times, and {limit} are enough"
    );
    Ok(())
}

/// Messages of a job that has ended leave the queue.
pub(super) fn queues_drain(left: &[String]) -> Verdict {
    promise!(left.is_empty(), "queues_drain", "still in the queue: {left:?}");
    Ok(())
}

/// Of several who begin a round at once, one sends its messages.
pub(super) fn messages_are_sent_once(message: &str, times: u64) -> Verdict {
    promise!(times <= 1, "messages_are_sent_once", "`{message}` was sent {times} times");
    Ok(())
}

/// Of fused rounds that are over, only little stays.
pub(super) fn followed_rounds_are_cleared(left: &[String]) -> Verdict {
    promise!(left.is_empty(), "followed_rounds_are_cleared", "still in the bucket: {left:?}");
    Ok(())
}
